#include "host/locked_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uroce {
namespace {

/// As for a user without privileges whose `ulimit -l` is `kilobytes`.
uint32_t slots_with(uint32_t kilobytes, uint32_t slot_bytes) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{kilobytes * 1024ul, kilobytes * 1024ul};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() == 0 && setuid(4711) != 0)) _exit(255);
    const uint32_t slots = lockable_slots(slot_bytes);
    _exit(slots == 0 ? 0 : __builtin_ctz(slots));
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_NE(status >> 8, 255);
  return status >> 8 == 0 ? 0 : 1u << (status >> 8);
}

TEST(LockedMemory, AsManySlotsAsFit) {
  EXPECT_EQ(slots_with(8192, 9216), 512u) << "what most distributions give, and two rings of frames of 4096 bytes";
  EXPECT_EQ(slots_with(4608, 4608), 1024u) << "exactly";
  EXPECT_EQ(slots_with(4604, 4608), 512u) << "a page too little";
  EXPECT_EQ(slots_with(288, 4608), 64u);
  EXPECT_EQ(slots_with(284, 4608), 0u);
  EXPECT_EQ(slots_with(0, 4608), 0u);
}

}  // namespace
}  // namespace uroce
