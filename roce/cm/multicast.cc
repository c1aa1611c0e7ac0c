#include "cm/multicast.h"

#include <algorithm>
#include <cerrno>

namespace uroce::cm {

namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;

void leave(Services& services, const JoinedGroup& joined, Instant now) {
  if (!joined.send_only) services.leave_group(joined.group, joined.sgid_index, now);
}

}  // namespace

int join_group(Services& services, EventSink& sink, Id& id, const IpAddress& group, bool send_only, void* multicast,
               Instant now) {
  IdState& state = id.state();
  if (state.qp_type != QpType::kUd || !id.has_device() || !group.is_multicast()) return EINVAL;
  const std::optional<ResolvedRoute> way = services.find_route(state.local.ip, group, state.local.scope_id);
  if (!way) return ENETUNREACH;
  state.groups.reserve(state.groups.size() + 1);  // behind the join nothing may need memory
  if (!send_only) services.join_group(group, way->sgid_index, now);
  state.groups.push_back(
      {.group = group, .sgid_index = way->sgid_index, .send_only = send_only, .multicast = multicast});
  Event event;
  event.type = EventType::kMulticastJoin;
  event.id = &id;
  event.is_datagram = true;
  event.multicast = multicast;
  event.datagram.av = way->av;
  event.datagram.av.dgid = group;
  if (state.options.tos) event.datagram.av.traffic_class = *state.options.tos;
  event.datagram.qpn = kMulticastQpn;
  event.datagram.qkey = state.qkey;
  sink.on_cm_event(event);
  return 0;
}

int leave_group(Services& services, Id& id, const void* multicast, Instant now) {
  auto& groups = id.state().groups;
  const auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.multicast == multicast; });
  if (it == groups.end()) return ENOENT;
  leave(services, *it, now);
  groups.erase(it);
  return 0;
}

void leave_all_groups(Services& services, Id& id, Instant now) {
  for (const JoinedGroup& joined : id.state().groups) leave(services, joined, now);
  id.state().groups.clear();
}

}  // namespace uroce::cm
