// A process that may not ask the kernel for random numbers ends, and says for what.
#include "base/random.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace uroce {
namespace {

/// As a sandbox does: from now on getrandom(2) fails with EPERM in this thread.
bool deny_getrandom() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {.len = sizeof steps / sizeof steps[0], .filter = steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void draw_where_it_is_denied() {
  if (!deny_getrandom()) {
    std::fputs("no seccomp filter here\n", stderr);
    return;
  }
  SystemRandom().next_u64();
}

TEST(SystemRandomDeathTest, ASandboxThatDeniesItIsNamed) {
  EXPECT_DEATH(draw_where_it_is_denied(), "uroce: getrandom\\(2\\): Operation not permitted: let the sandbox allow it");
}

}  // namespace
}  // namespace uroce
