// Where random numbers come from.
//
// QPNs, PSNs, rkeys and UDP source ports must be hard to guess in production and must repeat from a seed in the
// simulator, so everything that needs one is given a `RandomSource`.
#pragma once

#include <cstdint>

namespace uroce {

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual uint64_t next_u64() = 0;
  uint32_t next_u32() { return static_cast<uint32_t>(next_u64() >> 32); }
  /// Uniform enough for tests and tables: [0, bound), bound > 0.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((uint64_t{next_u32()} * bound) >> 32); }
};

/// Repeatable: the same seed gives the same numbers on every compiler (SplitMix64).
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t next_u64() override {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

/// The kernel's getrandom(2), buffered. Control path only. Where a sandbox denies it the process ends with one line:
/// guessable numbers are no substitute.
class SystemRandom final : public RandomSource {
 public:
  uint64_t next_u64() override;

 private:
  uint64_t buffer_[32] = {};
  unsigned left_ = 0;
};

}  // namespace uroce
