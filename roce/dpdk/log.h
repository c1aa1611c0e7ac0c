// One log for all of uroce, through rte_log: lines on stderr that start with "uroce: ".
//
// UROCE_LOG sets the level: error, warning (the default), info or debug. DPDK's own messages appear as "uroce: dpdk:
// ...", but only warnings and errors unless UROCE_LOG=debug. The log works before EAL is started. It may be called
// under any lock: a line for which stderr has no room is left out (host/error_output.h).
#pragma once

#include "host/log_level.h"

namespace uroce {

/// Logs one line; `format` has no newline at its end. For the control path only.
void log_message(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));
bool log_enabled(LogLevel level);
/// To be called in the child of a fork, before anything is logged there.
void renew_log_after_fork();

/// As long as such an object exists, DPDK's messages are kept instead of printed (unless UROCE_LOG=debug), so that a
/// failure can be reported in one line of uroce.
class QuietDpdk {
 public:
  QuietDpdk();
  ~QuietDpdk();
  QuietDpdk(const QuietDpdk&) = delete;
  QuietDpdk& operator=(const QuietDpdk&) = delete;
  /// The first error that DPDK reported since then, without newline, or "". Later ones usually follow from the first.
  std::string first_error() const;
};

}  // namespace uroce
