// Packet sequence numbers: 24 bits that wrap.
//
// A `Psn` has no operator<, because "less" has no meaning on a circle. `distance(a, b)` is how far b lies ahead of a,
// negative when it lies behind; the half circle of 2^23 is the border between ahead and behind, as the transport's
// duplicate region is defined.
#pragma once

#include <cstdint>

namespace uroce {

class Psn {
 public:
  static constexpr uint32_t kMask = 0xFFFFFF;

  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

  constexpr uint32_t value() const { return value_; }
  constexpr Psn operator+(uint32_t n) const { return Psn(value_ + n); }
  constexpr Psn operator-(uint32_t n) const { return Psn(value_ - n); }
  constexpr Psn& operator+=(uint32_t n) { return *this = *this + n; }
  constexpr bool operator==(const Psn&) const = default;

  /// Strictly behind `other` on the circle.
  constexpr bool before(Psn other) const;

 private:
  uint32_t value_ = 0;
};

/// The steps from `from` to `to`, in [-2^23, 2^23).
constexpr int32_t distance(Psn from, Psn to) {
  const uint32_t d = (to.value() - from.value()) & Psn::kMask;
  return d < 0x800000 ? static_cast<int32_t>(d) : static_cast<int32_t>(d) - 0x1000000;
}

constexpr bool Psn::before(Psn other) const { return distance(*this, other) > 0; }

static_assert(distance(Psn(0xFFFFFF), Psn(0)) == 1);
static_assert(distance(Psn(0), Psn(0xFFFFFF)) == -1);
static_assert(Psn(0xFFFFFE).before(Psn(1)) && !Psn(1).before(Psn(0xFFFFFE)));

}  // namespace uroce
