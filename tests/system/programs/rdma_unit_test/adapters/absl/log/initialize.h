// Stands in for Abseil's own, which is younger than Debian 12's Abseil.
#pragma once

namespace absl {

inline void InitializeLog() {}

}  // namespace absl
