// What all programs that have a device open count, for Prometheus.
#pragma once

#include <string>

namespace uroce::launcher {

/// Asks them now. Without programs, and one line in `error`, when the runtime directory cannot be used.
std::string text_of_programs(std::string& error);

}  // namespace uroce::launcher
