// Connection management in the place of one end of a recorded exchange.
#pragma once

#include "replay/cm_exchange.h"
#include "replay/replay.h"

namespace uroce::replay {

/// As requester it is who asked. The recorded messages of the other end are handed in at their times; what the recorded
/// end sent is compared with what ours sends.
RoleResult replay_cm(const CmExchange& exchange, Role role, const ReplayOptions& options);

}  // namespace uroce::replay
