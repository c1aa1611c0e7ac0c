// The QP state machine as a table: which transitions exist, and which attributes each needs and takes.
//
// From the transition table of the InfiniBand specification's "Modify Queue Pair" verb, in the form that
// ibv_modify_qp's manual page gives it. Alternate paths do not exist on RoCE and are refused.
#pragma once

#include "uroce/qp_attributes.h"

namespace uroce {

/// kOk, or what is wrong with `mask` for a transition from `from` to `to`. Every state may go to RESET or ERR.
ModifyResult check_transition(QpType type, QpState from, QpState to, uint32_t mask);

}  // namespace uroce
