// Tests that leave something, for left_over_test.py: by themselves all of them would pass.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

TEST(Careless, LeavesADescriptor) { EXPECT_GE(open("/dev/null", O_RDONLY | O_CLOEXEC), 0); }

TEST(Careless, LeavesAChild) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  EXPECT_GT(child, 0);
}

TEST(Careless, LeavesSharedMemory) {
  EXPECT_NE(mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
}

TEST(Careless, StandsElsewhere) { EXPECT_EQ(chdir("/"), 0); }

TEST(Careful, LeavesNothing) {
  while (waitpid(-1, nullptr, 0) > 0) continue;  // those of the previous test
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(close(fd), 0);
  void* const shared = mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(munmap(shared, 4096), 0);
}

}  // namespace
