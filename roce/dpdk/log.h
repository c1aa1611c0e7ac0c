// One log for all of uroce, through rte_log: lines on stderr that start with "uroce: ".
//
// UROCE_LOG chooses: error, warning (the default), info, debug. DPDK's own messages pass the same way as
// "uroce: dpdk: ...", warnings and errors only unless UROCE_LOG=debug. Works before EAL is started.
#pragma once

#include "host/log_level.h"

namespace uroce {

/// One message, one line; no newline at the end. Control path only.
void log_message(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));
bool log_enabled(LogLevel level);

/// While it lives DPDK's messages are kept instead of printed (unless UROCE_LOG=debug): what fails meanwhile is
/// reported in one line of our own.
class QuietDpdk {
 public:
  QuietDpdk();
  ~QuietDpdk();
  QuietDpdk(const QuietDpdk&) = delete;
  QuietDpdk& operator=(const QuietDpdk&) = delete;
  /// The first error that DPDK reported since, without newline: the ones behind it follow from it; "" if none.
  std::string first_error() const;
};

}  // namespace uroce
