// How much is said. The log itself is DPDK's business (dpdk/log.h).
#pragma once

#include <cstdint>
#include <string>

namespace uroce {

enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };

/// "error", "warning", "info", "debug". False when it is none of them.
bool parse_log_level(const std::string& text, LogLevel& level);

}  // namespace uroce
