// Random operations under random faults between two engines, every byte and completion checked: for one seed, many, or
// a night.
#pragma once

#include <cstdint>
#include <string>

namespace uroce::simulate {

struct VerifyOptions {
  uint64_t seed = 1;
  uint64_t seeds = 1;               // this one and those after it
  double hours = 0;                 // not 0: as many seeds as there is time for
  uint64_t ops = 2'000;             // operations of each
  std::string type = "rc";          // or uc, ud, all: one after the other
  uint32_t max_bytes = 256 * 1024;  // of a message
  std::string without;              // faults that are not drawn
  bool trace = false;               // every frame to stderr
};

/// Stops at the first failure, and prints how to repeat it. The exit code.
int verify(const VerifyOptions& options);

}  // namespace uroce::simulate
