#include "uroce/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>

namespace uroce {

IpAddress link_local_of(const MacAddress& mac) {
  IpAddress ip;
  ip.bytes[0] = 0xfe;
  ip.bytes[1] = 0x80;
  ip.bytes[8] = mac.bytes[0] ^ 0x02;
  ip.bytes[9] = mac.bytes[1];
  ip.bytes[10] = mac.bytes[2];
  ip.bytes[11] = 0xff;
  ip.bytes[12] = 0xfe;
  ip.bytes[13] = mac.bytes[3];
  ip.bytes[14] = mac.bytes[4];
  ip.bytes[15] = mac.bytes[5];
  return ip;
}

std::optional<IpAddress> parse_ip(std::string_view text) {
  const std::string copy(text);
  in_addr v4{};
  if (inet_pton(AF_INET, copy.c_str(), &v4) == 1) return IpAddress::v4(ntohl(v4.s_addr));
  IpAddress ip;
  if (inet_pton(AF_INET6, copy.c_str(), ip.bytes.data()) == 1) return ip;
  return std::nullopt;
}

std::string to_string(const IpAddress& ip) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (ip.is_v4()) {
    inet_ntop(AF_INET, ip.bytes.data() + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, ip.bytes.data(), text, sizeof text);
  }
  return text;
}

std::optional<MacAddress> parse_mac(std::string_view text) {
  // No scanf: it takes spaces and signs, too.
  MacAddress mac;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < mac.bytes.size(); i++) {
    if (i != 0 && (at == end || *at++ != ':')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, at + std::min<ptrdiff_t>(2, end - at), mac.bytes[i], 16);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  if (at != end) return std::nullopt;
  return mac;
}

std::string to_string(const MacAddress& mac) {
  char text[18];
  const auto& b = mac.bytes;
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5]);
  return text;
}

bool LocalAddress::on_link(const IpAddress& other) const {
  if (ip.is_v4() != other.is_v4()) return false;
  const unsigned bits = prefix_bits + (ip.is_v4() ? 96u : 0u);
  for (unsigned i = 0; i < bits; i++) {
    const uint8_t mask = static_cast<uint8_t>(0x80u >> (i % 8));
    if (((ip.bytes[i / 8] ^ other.bytes[i / 8]) & mask) != 0) return false;
  }
  return true;
}

namespace {

bool parse_number(std::string_view text, unsigned max, unsigned& value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return !text.empty() && error == std::errc() && at == end && value <= max;
}

}  // namespace

std::optional<LocalAddress> parse_local_address(std::string_view text) {
  LocalAddress result;
  unsigned number = 0;
  if (const auto at = text.find('@'); at != std::string_view::npos) {
    if (!parse_number(text.substr(at + 1), 4094, number) || number == 0) return std::nullopt;
    result.vlan_id = static_cast<uint16_t>(number);
    text = text.substr(0, at);
  }
  const auto slash = text.find('/');
  const auto ip = parse_ip(text.substr(0, slash));
  if (!ip || ip->is_zero() || ip->is_multicast()) return std::nullopt;
  result.ip = *ip;
  result.prefix_bits = ip->is_v4() ? 24 : 64;
  if (slash != std::string_view::npos) {
    if (!parse_number(text.substr(slash + 1), ip->is_v4() ? 32 : 128, number)) return std::nullopt;
    result.prefix_bits = static_cast<uint8_t>(number);
  }
  return result;
}

std::string to_string(const LocalAddress& address) {
  std::string text = to_string(address.ip) + "/" + std::to_string(address.prefix_bits);
  if (address.vlan_id != 0) text += "@" + std::to_string(address.vlan_id);
  return text;
}

}  // namespace uroce
