// Mathematics with the same result on every machine. The logarithm of one C library may differ from another's in the
// last bit, and then so does everything that was drawn with it. Additions, multiplications and divisions do not differ
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
