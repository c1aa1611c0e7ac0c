// Mathematics whose result is the same with every compiler: the C library's logarithm may differ in the last bit from
// one to the next, and then so does everything that was drawn with it. Additions, multiplications and divisions do not
// (IEEE 754; nothing in here is compiled with contraction or reassociation).
#pragma once

#include "base/random.h"

namespace uroce::sim {

/// Natural logarithm of x > 0, to about 1e-12.
double natural_log(double x);
/// Uniform in (0, 1].
double uniform(RandomSource& random);
/// Exponentially distributed with that mean.
double exponential(RandomSource& random, double mean);

}  // namespace uroce::sim
