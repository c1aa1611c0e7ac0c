// Asks a host, and prints what it finds out.
#pragma once

#include "options.h"

namespace uroce::ping {

/// Returns the exit status: 0 when all of it was answered, 1 when something was not.
int ask_host(const Options& options);

}  // namespace uroce::ping
