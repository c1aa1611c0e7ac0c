#pragma once

#include <cstdint>

namespace uroce::test {

inline constexpr uint64_t kGigabit = 1'000'000'000;  // bits per second

}  // namespace uroce::test
