// Ethernet and IP addresses as plain values.
//
// An `IpAddress` is always 16 bytes in network order. IPv4 is stored in its mapped form ::ffff:a.b.c.d, which is
// exactly the RoCEv2 GID of that address, so a GID and an `IpAddress` are the same 16 bytes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "uroce/export.h"

namespace uroce {

struct MacAddress {
  std::array<uint8_t, 6> bytes{};
  /// Compares numbers, because GCC would call memcmp for 6 bytes, and the addresses of every frame are compared.
  constexpr bool operator==(const MacAddress& other) const { return number() == other.number(); }
  constexpr bool is_multicast() const { return (bytes[0] & 1) != 0; }
  constexpr bool is_zero() const { return number() == 0; }
  /// All of it, the first byte last.
  constexpr uint64_t number() const {
    if (std::is_constant_evaluated()) {
      uint64_t all = 0;
      for (size_t i = bytes.size(); i-- > 0;) all = all << 8 | bytes[i];
      return all;
    }
    uint32_t head = 0;
    uint16_t tail = 0;
    std::memcpy(&head, bytes.data(), sizeof head);
    std::memcpy(&tail, bytes.data() + sizeof head, sizeof tail);
    return uint64_t{tail} << 32 | head;
  }
};

inline constexpr MacAddress kBroadcastMac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

struct IpAddress {
  std::array<uint8_t, 16> bytes{};

  /// Compares by words, because GCC would call memcmp for 16 bytes, and the addresses of every packet are compared.
  constexpr bool operator==(const IpAddress& other) const {
    using Words = std::array<uint64_t, 2>;
    const auto a = std::bit_cast<Words>(bytes), b = std::bit_cast<Words>(other.bytes);
    return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
  }
  static IpAddress v4(uint32_t host_order);
  bool is_v4() const;
  uint32_t v4_host_order() const;
  bool is_zero() const { return *this == IpAddress{}; }
  /// 127.0.0.0/8 or ::1: the host itself.
  bool is_loopback() const;
  bool is_link_local_v6() const { return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }
  bool is_multicast() const { return is_v4() ? (bytes[12] & 0xf0) == 0xe0 : bytes[0] == 0xff; }
};

inline IpAddress IpAddress::v4(uint32_t host_order) {
  IpAddress a;
  a.bytes[10] = a.bytes[11] = 0xff;
  for (unsigned i = 0; i < 4; i++) a.bytes[12 + i] = static_cast<uint8_t>(host_order >> (24 - 8 * i));
  return a;
}

inline bool IpAddress::is_v4() const {
  uint64_t head;
  uint32_t middle;
  std::memcpy(&head, bytes.data(), 8);
  std::memcpy(&middle, bytes.data() + 8, 4);
  return head == 0 && middle == 0xffff0000u;
}

inline uint32_t IpAddress::v4_host_order() const {
  return (uint32_t{bytes[12]} << 24) | (uint32_t{bytes[13]} << 16) | (uint32_t{bytes[14]} << 8) | bytes[15];
}

inline bool IpAddress::is_loopback() const {
  if (is_v4()) return bytes[12] == 127;
  IpAddress one;
  one.bytes[15] = 1;
  return *this == one;
}

/// The address in fe80::/64 with the modified EUI-64 of `mac`.
UROCE_API IpAddress link_local_of(const MacAddress& mac);

/// Takes for example "10.0.0.1" or "fe80::1". Returns nothing when the text is not an address.
UROCE_API std::optional<IpAddress> parse_ip(std::string_view text);
UROCE_API std::string to_string(const IpAddress& ip);
UROCE_API std::optional<MacAddress> parse_mac(std::string_view text);
UROCE_API std::string to_string(const MacAddress& mac);

/// An address of this endpoint, as `--addr IP/PREFIX[@VLAN]` gives it. Each one becomes a GID.
struct LocalAddress {
  IpAddress ip;
  uint8_t prefix_bits = 0;  // of the address family: up to 32 or 128
  uint16_t vlan_id = 0;     // 0: untagged
  bool operator==(const LocalAddress&) const = default;

  /// True when `other` is in this address's subnet.
  UROCE_API bool on_link(const IpAddress& other) const;
};

/// Takes for example "10.0.0.1/24" or "fd00::1/64@100". Without a prefix it is /24 for IPv4 and /64 for IPv6. Returns
/// nothing when the text is malformed.
UROCE_API std::optional<LocalAddress> parse_local_address(std::string_view text);
UROCE_API std::string to_string(const LocalAddress& address);

}  // namespace uroce
