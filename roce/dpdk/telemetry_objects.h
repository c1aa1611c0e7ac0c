// What this process tells over telemetry for RDMA netlink (host/object_rows.h).
#pragma once

#include <rte_telemetry.h>

namespace uroce {

/// The commands; called by telemetry, in a thread that owns no engine.
int on_objects(const char* command, const char* params, rte_tel_data* data);
int on_device_counters(const char* command, const char* params, rte_tel_data* data);

}  // namespace uroce
