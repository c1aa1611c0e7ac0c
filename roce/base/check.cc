#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace uroce {

void ensure_failed(const char* promise, const char* file, int line) {
  std::fprintf(stderr, "uroce: %s:%d: not so: %s. This is a mistake in uroce itself: please report it.\n", file, line,
               promise);
  std::abort();
}

}  // namespace uroce
