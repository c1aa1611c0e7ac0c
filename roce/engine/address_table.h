// The addresses of this endpoint: its MAC and the GID table.
//
// Row 0 is the link-local address of the MAC, for good. The others keep their numbers while they last: an address that
// goes leaves a hole, an address of zeros, and a new one takes the first hole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "uroce/address.h"

namespace uroce {

class AddressTable {
 public:
  /// Verbs number a row with one byte.
  static constexpr uint32_t kGidsMax = 256;
  /// The number of rows that programs see at least, whether they have an address or not.
  static constexpr uint32_t kGidsShown = 32;

  /// `addresses`: rows 1.. in this order, each once, as many as fit.
  AddressTable(const MacAddress& mac, std::span<const LocalAddress> addresses);

  const MacAddress& mac() const { return mac_; }
  /// Row i is gids()[i]; an address of zeros is a hole. All are RoCE v2.
  std::span<const LocalAddress> gids() const { return gids_; }
  uint16_t lid() const;  // see doc/adr: the low 16 bits of the first IPv4 address

  /// The rows that have an address.
  std::vector<LocalAddress> present() const;
  bool is_own(const IpAddress& ip, uint16_t vlan_id) const {
    if (ip.is_zero()) return false;  // as holes in the table are
    return std::any_of(gids_.begin(), gids_.end(),
                       [&](const LocalAddress& own) { return own.ip == ip && own.vlan_id == vlan_id; });
  }
  /// Whether any address is on this VLAN (0: on none).
  bool has_vlan(uint16_t vlan_id) const {
    return std::any_of(gids_.begin(), gids_.end(),
                       [&](const LocalAddress& own) { return !own.ip.is_zero() && own.vlan_id == vlan_id; });
  }
  /// The row with this number; nullptr when there is none, or a hole.
  const LocalAddress* row(uint32_t index) const;
  /// The first that is an IPv4 address, or nullptr.
  const LocalAddress* first_v4() const;

  /// These are the port's addresses now. False: nothing new, or nothing that fits kGidsMax.
  bool set(std::span<const LocalAddress> addresses);
  /// Another one whenever the addresses have changed.
  uint32_t version() const { return version_; }

 private:
  bool remove_absent(std::span<const LocalAddress> addresses);
  bool add(const LocalAddress& address);

  const MacAddress mac_;
  std::vector<LocalAddress> gids_;
  uint32_t version_ = 0;
};

}  // namespace uroce
