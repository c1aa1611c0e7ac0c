// A queue pair from RESET to where it can work: the steps that every program takes with ibv_modify_qp.
#pragma once

#include "engine/engine.h"

namespace uroce {

/// From RESET or INIT step by step to `target` (INIT, RTR or RTS), each step with the attributes that it requires.
/// Returns kOk, or why a step was refused; the steps before it stay done.
ModifyResult bring_up(Engine& engine, Qp& qp, QpAttributes attributes, QpState target, Instant now);

}  // namespace uroce
