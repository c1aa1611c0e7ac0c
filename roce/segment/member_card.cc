#include "segment/member_card.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <utility>

#include "base/printable.h"

namespace uroce::segment {
namespace {

constexpr std::string_view kHeading = "uroce segment member 1";
constexpr std::string_view kEnding = "end";  // so that a card that is being written is not taken for a whole one
constexpr uint32_t kMtuLeast = 576;
constexpr uint32_t kMtuMost = 65535;
constexpr size_t kNetdevBytesMax = 15;  // of an interface's name, as Linux has them

bool parse_number(std::string_view text, uint32_t& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size();
}

bool parse_hex(std::string_view text, uint64_t& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return text.size() == 16 && code == std::errc() && end == text.data() + text.size();
}

std::string to_hex(uint64_t number) {
  char text[17];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

/// Parses a service ID and the mask of its bits that count.
bool take_listening(MemberCard& card, std::string_view value) {
  Listening listening;
  if (value.size() != 33 || value[16] != ' ' || card.listens.size() >= kListensMax) return false;
  if (!parse_hex(value.substr(0, 16), listening.service_id) || !parse_hex(value.substr(17), listening.mask))
    return false;
  card.listens.push_back(listening);
  return true;
}

constexpr std::pair<Role, std::string_view> kRoles[] = {
    {Role::kStation, "station"}, {Role::kUplink, "uplink"}, {Role::kBridge, "bridge"}};

bool take_role(MemberCard& card, std::string_view value) {
  for (const auto& [role, name] : kRoles) {
    if (name != value) continue;
    card.role = role;
    return true;
  }
  return false;
}

/// Keys that only uplinks have.
bool take_uplink_line(MemberCard& card, std::string_view key, std::string_view value) {
  if (key == "mtu") return parse_number(value, card.mtu) && card.mtu >= kMtuLeast && card.mtu <= kMtuMost;
  if (key == "qps") return parse_number(value, card.qps_max);
  if (key == "lanes") return parse_number(value, card.lanes_max);
  if (key == "link" && (value == "up" || value == "down")) {
    card.link_up = value == "up";
    return true;
  }
  if (key != "netdev" || value.size() > kNetdevBytesMax || value.find('/') != std::string_view::npos ||
      printable(value) != value)
    return false;
  card.netdev = value;
  return true;
}

bool take_line(MemberCard& card, std::string_view key, std::string_view value) {
  uint32_t number = 0;
  if (key == "role") return take_role(card, value);
  if (key == "listen") return take_listening(card, value);
  if (key == "host" && valid_host_name(value)) {
    card.host = value;
  } else if (const auto mac = parse_mac(value); key == "mac" && mac && !mac->is_multicast()) {
    card.mac = *mac;
  } else if (key == "group" && mac && mac->is_multicast() && card.groups.size() < kGroupsMax) {
    card.groups.push_back(*mac);
  } else if (key == "raw" && mac && card.raw.size() < kRawMacsMax) {
    card.raw.push_back(*mac);
  } else if (key == "raw" && value == "all") {
    card.raw_all = true;
  } else if (const auto address = parse_local_address(value);
             key == "address" && address && card.addresses.size() < kAddressesMax) {
    card.addresses.push_back(*address);
  } else if (key == "block" && card.blocks.size() < kBlocksMax && parse_number(value, number) && number > 0 &&
             number < kQpnBlocks - 1) {
    card.blocks.push_back(number);
  } else if (key == "pid" && parse_number(value, number)) {
    card.pid = static_cast<int>(number);
  } else if (key == "program") {
    // The writer may have written anything; this program's own cards have printable names already.
    card.program = printable(value.substr(0, kProgramBytesMax));
  } else {
    return take_uplink_line(card, key, value);
  }
  return true;
}

}  // namespace

bool valid_host_name(std::string_view name) {
  if (name.empty() || name.size() > 32 || std::isalnum(static_cast<unsigned char>(name.front())) == 0) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-_.@").find(c) != std::string::npos;
  });
}

std::string to_text(const MemberCard& card) {
  std::string text = std::string(kHeading) + "\nhost " + card.host + "\nmac " + to_string(card.mac) + "\n";
  for (const auto& [role, name] : kRoles) {
    if (role == card.role) text += "role " + std::string(name) + "\n";
  }
  if (card.mtu != 0) text += "mtu " + std::to_string(card.mtu) + "\n";
  if (card.qps_max != 0) text += "qps " + std::to_string(card.qps_max) + "\n";
  if (card.lanes_max != 0) text += "lanes " + std::to_string(card.lanes_max) + "\n";
  if (!card.link_up) text += "link down\n";
  if (!card.netdev.empty()) text += "netdev " + card.netdev + "\n";
  for (size_t i = 0; i < std::min(card.addresses.size(), kAddressesMax); i++)
    text += "address " + to_string(card.addresses[i]) + "\n";
  for (size_t i = 0; i < std::min(card.blocks.size(), kBlocksMax); i++)
    text += "block " + std::to_string(card.blocks[i]) + "\n";
  for (size_t i = 0; i < std::min(card.listens.size(), kListensMax); i++)
    text += "listen " + to_hex(card.listens[i].service_id) + " " + to_hex(card.listens[i].mask) + "\n";
  for (size_t i = 0; i < std::min(card.groups.size(), kGroupsMax); i++)
    text += "group " + to_string(card.groups[i]) + "\n";
  for (size_t i = 0; i < std::min(card.raw.size(), kRawMacsMax); i++) text += "raw " + to_string(card.raw[i]) + "\n";
  if (card.raw_all) text += "raw all\n";
  text += "pid " + std::to_string(card.pid) + "\nprogram " + printable(card.program.substr(0, kProgramBytesMax));
  return text + "\n" + std::string(kEnding) + "\n";
}

std::optional<MemberCard> parse_card(std::string_view text) {
  MemberCard card;
  for (bool first = true; !text.empty(); first = false) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (first != (line == kHeading)) return std::nullopt;
    if (first) continue;
    if (line == kEnding) {
      const bool whole = text.empty() && !card.host.empty() && !card.mac.is_zero();
      return whole ? std::optional(card) : std::nullopt;
    }
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || !take_line(card, line.substr(0, space), line.substr(space + 1)))
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace uroce::segment
