// `uroce-sim verify`: random operations under random faults between two engines, with every byte and completion
// checked, for one seed, for many, or for hours.
#pragma once

#include <cstdint>
#include <string>

namespace uroce::simulate {

struct VerifyOptions {
  uint64_t seed = 1;
  uint64_t seeds = 1;               // so many, beginning with the given one
  double hours = 0;                 // if not 0: as many seeds as there is time for
  uint64_t ops = 2'000;             // operations per seed
  std::string type = "rc";          // or uc, ud, or all, one after the other
  uint32_t max_bytes = 256 * 1024;  // of a message
  std::string without;              // faults that are not drawn
  bool trace = false;               // every frame to stderr
};

/// Stops at the first failure, and prints how to repeat it. Returns the exit code.
int verify(const VerifyOptions& options);

}  // namespace uroce::simulate
