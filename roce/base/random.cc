#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce {

uint64_t SystemRandom::next_u64() {
  if (left_ == 0) {
    // getrandom() never returns fewer bytes when asked for at most 256; only a signal before the pool is ready
    // interrupts it.
    while (getrandom(buffer_, sizeof buffer_, 0) != static_cast<ssize_t>(sizeof buffer_)) {
      if (errno == EINTR) continue;
      std::fprintf(stderr, "uroce: getrandom(2): %s: let the sandbox allow it (seccomp)\n", std::strerror(errno));
      std::abort();
    }
    left_ = sizeof buffer_ / sizeof buffer_[0];
  }
  return buffer_[--left_];
}

}  // namespace uroce
