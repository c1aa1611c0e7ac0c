// The settings of a program's queue pair for each state, as the kernel gives them to librdmacm (INIT_QP_ATTR).
#pragma once

#include "cm/id_state.h"
#include "cm/values.h"

namespace uroce::cm {

/// Returns 0, or EINVAL: the connection has not got so far.
int qp_settings(const IdState& id, QpState state, QpSettings& settings);

}  // namespace uroce::cm
