// DPDK's telemetry in a directory of this process, started without EAL or anew.
#pragma once

#include <string>

namespace uroce {

inline constexpr const char* kTelemetryName = "dpdk_telemetry.v2";

/// Listens at kTelemetryName in `directory`, which is made if necessary. Returns false when that fails.
bool start_telemetry(const std::string& directory);
/// The same when a socket already listens at `before`, a path whose file is gone: that socket is closed.
bool start_telemetry_again(const std::string& before, const std::string& directory);

/// To be called in the child of a fork: the socket is its parent's, also when the child ends.
void leave_telemetry();

/// The path to which DPDK's telemetry of this process, started by `start_telemetry`, is bound; "" before.
std::string telemetry_path();

}  // namespace uroce
