// Connection management in the place of one end of a recorded exchange.
#pragma once

#include "replay/cm_exchange.h"
#include "replay/replay.h"

namespace uroce::replay {

/// The requester is the side that sent the request. The recorded messages of the other end are handed in at their
/// times; the recorded end's own messages are compared with ours.
RoleResult replay_cm(const CmExchange& exchange, Role role, const ReplayOptions& options);

}  // namespace uroce::replay
