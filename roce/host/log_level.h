// How much is logged. The log itself is written through DPDK (dpdk/log.h).
#pragma once

#include <cstdint>
#include <string>

namespace uroce {

enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };

/// Takes "error", "warning", "info" or "debug". Returns false for anything else.
bool parse_log_level(const std::string& text, LogLevel& level);

}  // namespace uroce
