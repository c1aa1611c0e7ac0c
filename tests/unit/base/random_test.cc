// A process that may not ask the kernel for random numbers ends, and says for what.
#include "base/random.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>

namespace uroce {
namespace {

/// As a sandbox does: from now on getrandom(2) fails with EPERM in this thread, unless it has these flags.
bool deny_getrandom(uint32_t but_with_flags = UINT32_MAX) {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, but_with_flags, 1, 0),
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

/// Early at boot the kernel may have no random numbers yet: the call waits for them, it does not fail.
TEST(SystemRandomDeathTest, WaitsUntilThereAreSome) {
  const auto draw = [] {
    deny_getrandom(0);
    SystemRandom random;
    bool differ = false;
    const uint64_t first = random.next_u64();
    for (int i = 0; i < 1000; i++) differ |= random.next_u64() != first;
    _exit(differ ? 0 : 1);
  };
  EXPECT_EXIT(draw(), testing::ExitedWithCode(0), "");
}

/// Each number is handed out once, also from one request of the kernel to the next.
TEST(SystemRandom, NoNumberTwice) {
  SystemRandom random;
  std::set<uint64_t> seen;
  for (int i = 0; i < 5000; i++) EXPECT_TRUE(seen.insert(random.next_u64()).second);
}

}  // namespace
}  // namespace uroce
