#include "engine/multicast_groups.h"

#include <algorithm>
#include <new>

namespace uroce {

/// An address of the group's IP version, preferably one on no VLAN.
const LocalAddress* MulticastGroups::source_for(const IpAddress& group, uint8_t row) const {
  const LocalAddress* const named = addresses_.row(row);
  if (named != nullptr && named->ip.is_v4() == group.is_v4()) return named;
  const LocalAddress* found = nullptr;
  for (const LocalAddress& own : addresses_.gids()) {
    if (own.ip.is_zero() || own.ip.is_v4() != group.is_v4()) continue;
    if (found == nullptr || (found->vlan_id != 0 && own.vlan_id == 0)) found = &own;
  }
  return found;
}

bool MulticastGroups::join(const IpAddress& group, uint8_t row, Instant now) {
  const LocalAddress* const source = source_for(group, row);
  return group.is_multicast() && source != nullptr && membership_.join(group, *source, now);
}

void MulticastGroups::leave(const IpAddress& group, uint8_t row, Instant now) {
  const LocalAddress* const source = source_for(group, row);
  if (source != nullptr) membership_.leave(group, source->vlan_id, now);
}

MulticastGroups::Result MulticastGroups::attach(Qp& qp, const IpAddress& group, Instant now) {
  if (qp.type() != QpType::kUd || !group.is_multicast()) return Result::kInvalid;
  const auto [at, fresh] = groups_.try_emplace(group.bytes);
  std::vector<Qp*>& qps = at->second;
  if (std::find(qps.begin(), qps.end(), &qp) != qps.end()) return Result::kOk;
  if (qps.size() >= kAttachedMax) return Result::kFull;
  const auto take_out = [&qps, &qp, this, here = at] {
    std::erase(qps, &qp);
    if (qps.empty()) groups_.erase(here);
  };
  try {
    qps.push_back(&qp);
    loopback_.open();
    // Row 0 is an IPv6 address, so that for IPv4 the first is found.
    if (!fresh || join(group, 0, now)) return Result::kOk;
  } catch (const std::bad_alloc&) {
    take_out();
    throw;
  }
  take_out();
  return Result::kFull;
}

MulticastGroups::Result MulticastGroups::detach(Qp& qp, const IpAddress& group, Instant now) {
  const auto found = groups_.find(group.bytes);
  if (found == groups_.end() || std::erase(found->second, &qp) == 0) return Result::kInvalid;
  if (found->second.empty()) {
    groups_.erase(found);
    leave(group, 0, now);
  }
  return Result::kOk;
}

bool MulticastGroups::is_attached(Qp& qp) const {
  return std::any_of(groups_.begin(), groups_.end(), [&qp](const auto& group) {
    return std::find(group.second.begin(), group.second.end(), &qp) != group.second.end();
  });
}

void MulticastGroups::forget(Qp& qp, Instant now) {
  for (auto group = groups_.begin(); group != groups_.end();) {
    const IpAddress address{group->first};
    ++group;  // `detach` may erase the group
    detach(qp, address, now);
  }
}

}  // namespace uroce
