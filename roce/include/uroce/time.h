// Time as the engine sees it: nanoseconds on a monotonic clock that the caller reads.
//
// The engine reads no clock: the caller passes an `Instant` to every call that needs one. Time may begin anywhere and
// must not go back.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace uroce {

struct Duration {
  int64_t ns = 0;
  constexpr auto operator<=>(const Duration&) const = default;
};

constexpr Duration nanoseconds(int64_t n) { return {n}; }
constexpr Duration microseconds(int64_t n) { return {n * 1000}; }
constexpr Duration milliseconds(int64_t n) { return {n * 1000000}; }
constexpr Duration operator*(Duration d, int64_t n) { return {d.ns * n}; }

struct Instant {
  int64_t ns = 0;
  constexpr auto operator<=>(const Instant&) const = default;
  /// Later than every real instant: "no timer".
  static constexpr Instant never() { return {std::numeric_limits<int64_t>::max()}; }
};

constexpr Instant operator+(Instant t, Duration d) { return {t.ns + d.ns}; }
constexpr Duration operator-(Instant a, Instant b) { return {a.ns - b.ns}; }

}  // namespace uroce
