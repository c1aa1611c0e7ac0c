// The command of telemetry that lists objects (host/object_rows.h).
#pragma once

#include <rte_telemetry.h>

namespace uroce {

/// Called by telemetry, in a thread that owns no engine.
int on_objects(const char* command, const char* params, rte_tel_data* data);

}  // namespace uroce
