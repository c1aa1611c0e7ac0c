// Answers pings.
#pragma once

namespace uroce::ping {

/// Returns when it cannot, with 1, after one line on stderr; else a signal ends it.
int serve();

}  // namespace uroce::ping
