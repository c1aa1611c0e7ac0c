// The heap of a test program, counted: every `new` of it. Each may be made to fail.
#pragma once

#include <cstdint>

namespace uroce::test {

inline constexpr uint64_t kNever = UINT64_MAX;

/// For this thread alone: GoogleTest starts no other.
struct Heap {
  int64_t live = 0;
  uint64_t all = 0;
  uint64_t bytes = 0;       // of all
  uint64_t asked = 0;       // number of allocations watched
  uint64_t fails = kNever;  // the number of the one that fails
  bool all_after = false;   // those that follow fail, too, until the call is over
  bool watched = false;
};
extern Heap heap;

}  // namespace uroce::test
