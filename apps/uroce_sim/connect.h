// `uroce-sim connect`: connection management between two engines.
#pragma once

#include <cstdint>
#include <string>

#include "uroce/time.h"

namespace uroce::simulate {

struct ConnectOptions {
  uint64_t seed = 1;
  uint32_t count = 10'000;
  uint64_t per_second = 0;
  std::string faults;
  uint64_t rate = 100'000'000'000;
  Duration delay = microseconds(1);
  Duration hold{};
  bool hash_only = false;
};

/// Returns the exit code.
int connect(const ConnectOptions& options);

}  // namespace uroce::simulate
