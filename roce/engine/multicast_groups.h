// Multicast: which queue pairs get a copy of a frame to a group, and which groups the network is to deliver here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/address_table.h"
#include "engine/group_membership.h"
#include "engine/loopback.h"
#include "transport/qp.h"
#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce {

class MulticastGroups {
 public:
  static constexpr uint32_t kAttachedMax = 256;  // queue pairs of one group

  /// `addresses` and `loopback` outlive this.
  MulticastGroups(const AddressTable& addresses, Loopback& loopback, const GroupMembership& membership)
      : addresses_(addresses), loopback_(loopback), membership_(membership) {}

  enum class Result : uint8_t {
    kOk,
    kInvalid,  // no datagram queue pair, no group, or not attached
    kFull,
  };
  /// From now on `qp` gets what is sent to `group` with its Q_Key. A second call changes nothing. When there is no
  /// memory for it (std::bad_alloc), nothing has changed.
  Result attach(Qp& qp, const IpAddress& group, Instant now);
  Result detach(Qp& qp, const IpAddress& group, Instant now);
  /// Whether `qp` is attached to any group.
  bool is_attached(Qp& qp) const;
  /// To be called before `qp` is destroyed.
  void forget(Qp& qp, Instant now);
  /// The host wants the group's frames even if no queue pair does (`leave`: no longer). `row`: of the GID table; where
  /// it has no suitable address, another one is found.
  bool join(const IpAddress& group, uint8_t row, Instant now);
  void leave(const IpAddress& group, uint8_t row, Instant now);

  bool any() const { return !groups_.empty(); }
  /// The queue pairs of the group; nullptr: none.
  const std::vector<Qp*>* attached(const IpAddress& group) const {
    const auto found = groups_.find(group.bytes);
    return found == groups_.end() ? nullptr : &found->second;
  }
  GroupMembership& membership() { return membership_; }
  const GroupMembership& membership() const { return membership_; }

 private:
  const LocalAddress* source_for(const IpAddress& group, uint8_t row) const;

  const AddressTable& addresses_;
  Loopback& loopback_;
  GroupMembership membership_;
  std::map<std::array<uint8_t, 16>, std::vector<Qp*>> groups_;
};

}  // namespace uroce
