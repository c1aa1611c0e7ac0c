// Small helpers for messages.
#pragma once

#include <string>

namespace uroce::replay {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* text, ...);

}  // namespace uroce::replay
