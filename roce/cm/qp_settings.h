// What a program's queue pair is to be set to for each state, as the kernel tells librdmacm (INIT_QP_ATTR).
#pragma once

#include "cm/id_state.h"
#include "cm/values.h"

namespace uroce::cm {

/// 0, or EINVAL: the connection has not come so far.
int qp_settings(const IdState& id, QpState state, QpSettings& settings);

}  // namespace uroce::cm
