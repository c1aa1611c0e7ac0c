// Multicast groups of Ids: on RoCEv2 a group's GID is its IP address, and a host that wants its frames tells the
// network by IGMP or MLD.
#pragma once

#include "cm/id_state.h"
#include "cm/services.h"

namespace uroce::cm {

/// Returns an errno; reports kMulticastJoin before it returns 0. A member that only sends joins nothing.
int join_group(Services& services, EventSink& sink, Id& id, const IpAddress& group, bool send_only, void* multicast,
               Instant now);
/// ENOENT: no such group.
int leave_group(Services& services, Id& id, const void* multicast, Instant now);
void leave_all_groups(Services& services, Id& id, Instant now);

}  // namespace uroce::cm
