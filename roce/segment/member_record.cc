#include "segment/member_record.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <utility>

#include "base/printable.h"

namespace uroce::segment {
namespace {

constexpr std::string_view kHeading = "uroce segment member 1";
constexpr std::string_view kEnding = "end";  // so that a record that is being written is not taken for a whole one
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
bool take_listening(MemberRecord& record, std::string_view value) {
  Listening listening;
  if (value.size() != 33 || value[16] != ' ' || record.listens.size() >= kListensMax) return false;
  if (!parse_hex(value.substr(0, 16), listening.service_id) || !parse_hex(value.substr(17), listening.mask))
    return false;
  record.listens.push_back(listening);
  return true;
}

constexpr std::pair<Role, std::string_view> kRoles[] = {
    {Role::kStation, "station"}, {Role::kUplink, "uplink"}, {Role::kBridge, "bridge"}};

bool take_role(MemberRecord& record, std::string_view value) {
  for (const auto& [role, name] : kRoles) {
    if (name != value) continue;
    record.role = role;
    return true;
  }
  return false;
}

/// Keys that only uplinks have.
bool take_uplink_line(MemberRecord& record, std::string_view key, std::string_view value) {
  if (key == "mtu") return parse_number(value, record.mtu) && record.mtu >= kMtuLeast && record.mtu <= kMtuMost;
  if (key == "qps") return parse_number(value, record.quotas.qps_max);
  if (key == "lanes") return parse_number(value, record.quotas.lanes_max);
  if (key == "link" && (value == "up" || value == "down")) {
    record.link_up = value == "up";
    return true;
  }
  if (key != "netdev" || value.size() > kNetdevBytesMax || value.find('/') != std::string_view::npos ||
      printable(value) != value)
    return false;
  record.netdev = value;
  return true;
}

bool take_line(MemberRecord& record, std::string_view key, std::string_view value) {
  uint32_t number = 0;
  if (key == "role") return take_role(record, value);
  if (key == "listen") return take_listening(record, value);
  if (key == "host" && valid_host_name(value)) {
    record.host = value;
  } else if (const auto mac = parse_mac(value); key == "mac" && mac && !mac->is_multicast()) {
    record.mac = *mac;
  } else if (key == "group" && mac && mac->is_multicast() && record.groups.size() < kGroupsMax) {
    record.groups.push_back(*mac);
  } else if (key == "raw" && mac && record.raw.macs.size() < kRawMacsMax) {
    record.raw.macs.push_back(*mac);
  } else if (key == "raw" && value == "all") {
    record.raw.all = true;
  } else if (key == "shut" && value == "out") {
    record.shut = true;
  } else if (key == "leads" && value == "out") {
    record.leads_out = true;
  } else if (const auto address = parse_local_address(value);
             key == "address" && address && record.addresses.size() < kAddressesMax) {
    record.addresses.push_back(*address);
  } else if (key == "block" && record.blocks.size() < kBlocksMax && parse_number(value, number) && number > 0 &&
             number < kQpnBlocks - 1) {
    record.blocks.push_back(number);
  } else if (key == "pid" && parse_number(value, number)) {
    record.pid = static_cast<int>(number);
  } else if (key == "program") {
    // The writer may have written anything; this program's own records have printable names already.
    record.program = printable(value.substr(0, kProgramBytesMax));
  } else {
    return take_uplink_line(record, key, value);
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

std::string to_text(const MemberRecord& record) {
  std::string text = std::string(kHeading) + "\nhost " + record.host + "\nmac " + to_string(record.mac) + "\n";
  for (const auto& [role, name] : kRoles) {
    if (role == record.role) text += "role " + std::string(name) + "\n";
  }
  if (record.mtu != 0) text += "mtu " + std::to_string(record.mtu) + "\n";
  if (record.quotas.qps_max != 0) text += "qps " + std::to_string(record.quotas.qps_max) + "\n";
  if (record.quotas.lanes_max != 0) text += "lanes " + std::to_string(record.quotas.lanes_max) + "\n";
  if (!record.link_up) text += "link down\n";
  if (!record.netdev.empty()) text += "netdev " + record.netdev + "\n";
  for (size_t i = 0; i < std::min(record.addresses.size(), kAddressesMax); i++)
    text += "address " + to_string(record.addresses[i]) + "\n";
  for (size_t i = 0; i < std::min(record.blocks.size(), kBlocksMax); i++)
    text += "block " + std::to_string(record.blocks[i]) + "\n";
  for (size_t i = 0; i < std::min(record.listens.size(), kListensMax); i++)
    text += "listen " + to_hex(record.listens[i].service_id) + " " + to_hex(record.listens[i].mask) + "\n";
  for (size_t i = 0; i < std::min(record.groups.size(), kGroupsMax); i++)
    text += "group " + to_string(record.groups[i]) + "\n";
  for (size_t i = 0; i < std::min(record.raw.macs.size(), kRawMacsMax); i++)
    text += "raw " + to_string(record.raw.macs[i]) + "\n";
  if (record.raw.all) text += "raw all\n";
  if (record.shut) text += "shut out\n";
  if (record.leads_out) text += "leads out\n";
  text += "pid " + std::to_string(record.pid) + "\nprogram " + printable(record.program.substr(0, kProgramBytesMax));
  return text + "\n" + std::string(kEnding) + "\n";
}

std::optional<MemberRecord> parse_record(std::string_view text) {
  MemberRecord record;
  for (bool first = true; !text.empty(); first = false) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (first != (line == kHeading)) return std::nullopt;
    if (first) continue;
    if (line == kEnding) {
      const bool whole = text.empty() && !record.host.empty() && !record.mac.is_zero();
      return whole ? std::optional(record) : std::nullopt;
    }
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || !take_line(record, line.substr(0, space), line.substr(space + 1)))
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace uroce::segment
