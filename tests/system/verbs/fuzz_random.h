// What the fuzzers of calls draw from: the same seed gives the same calls, everywhere.
#pragma once

#include <cstdint>
#include <random>

namespace fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t below(uint64_t n) { return engine_() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace fuzz
