#include "sim/portable_math.h"

#include <bit>
#include <cstdint>

namespace uroce::sim {

double natural_log(double x) {
  constexpr double kLn2 = 0.693147180559945309417;
  constexpr double kSqrt2 = 1.41421356237309504880;
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);  // [1, 2)
  if (m > kSqrt2) {
    m = m / 2;
    exponent++;
  }
  // ln(m) = 2 artanh(z) with z = (m - 1) / (m + 1), |z| < 0.172: what follows z^19 in the series is below 1e-16.
  const double z = (m - 1) / (m + 1);
  const double square = z * z;
  double sum = 0;
  for (int k = 19; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * z * sum + exponent * kLn2;
}

double uniform(RandomSource& random) {
  return (static_cast<double>(random.next_u64() >> 11) + 1) * (1.0 / 9007199254740992.0);
}

double exponential(RandomSource& random, double mean) { return -natural_log(uniform(random)) * mean; }

}  // namespace uroce::sim
