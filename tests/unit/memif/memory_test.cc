#include "memif/memory.h"

#include <gtest/gtest.h>

#include "support.h"

namespace uroce::memif {
namespace {

using namespace test;

TEST(Memory, SealedMemoryIsTaken) {
  const ClientMemory client;
  Memory memory;
  ASSERT_EQ(memory.add(client.file.get(), client.bytes()), "");
  client.base[100] = 42;
  EXPECT_EQ(*memory.at(0, 100, 1), 42);
  EXPECT_NE(ftruncate(client.file.get(), 0), 0) << "nobody can take it away";
}

TEST(Memory, WhatCouldShrinkIsNot) {
  const ClientMemory unsealed(2, 0);
  const ClientMemory otherwise(2, F_SEAL_GROW | F_SEAL_SEAL);
  Memory memory;
  for (const ClientMemory* client : {&unsealed, &otherwise}) {
    EXPECT_EQ(memory.add(client->file.get(), client->bytes()), "region is not sealed against shrinking");
  }
  EXPECT_EQ(memory.regions(), 0u);
}

TEST(Memory, WhatIsNoMemoryIsNot) {
  Memory memory;
  for (const char* path : {"/dev/zero", "/proc/self/exe", "/"}) {
    const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd) << path;
    EXPECT_NE(memory.add(fd.get(), 4096), "") << path;
  }
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  EXPECT_NE(memory.add(event.get(), 4096), "");
  EXPECT_NE(memory.add(-1, 4096), "");
}

TEST(Memory, HugePagesAreNot) {
  const UniqueFd huge(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!huge) GTEST_SKIP() << "this kernel has no huge pages";
  ASSERT_EQ(ftruncate(huge.get(), 2 << 20), 0);
  ASSERT_EQ(fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  Memory memory;
  EXPECT_EQ(memory.add(huge.get(), 2 << 20), "region is not ordinary memory");
}

TEST(Memory, WhatIsShorterThanSaidIsNot) {
  const ClientMemory client;
  Memory memory;
  EXPECT_EQ(memory.add(client.file.get(), client.bytes() + 1), "region is shorter than said");
  EXPECT_EQ(memory.add(client.file.get(), UINT64_MAX), "region is shorter than said");
}

TEST(Memory, WhatMayNotBeWrittenIsNot) {
  const UniqueFd file(memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
  Memory memory;
  EXPECT_NE(memory.add(file.get(), 4096), "");
}

TEST(Memory, NothingOutsideARegionIsReached) {
  const ClientMemory client;
  const uint64_t bytes = client.bytes();
  Memory memory;
  ASSERT_EQ(memory.add(client.file.get(), bytes), "");
  EXPECT_NE(memory.at(0, 0, bytes), nullptr);
  EXPECT_NE(memory.at(0, bytes - 1, 1), nullptr);
  EXPECT_NE(memory.at(0, bytes, 0), nullptr);
  EXPECT_EQ(memory.at(0, 0, bytes + 1), nullptr);
  EXPECT_EQ(memory.at(0, bytes, 1), nullptr);
  EXPECT_EQ(memory.at(0, bytes + 1, 0), nullptr);
  EXPECT_EQ(memory.at(0, 1, UINT64_MAX), nullptr);
  EXPECT_EQ(memory.at(0, UINT64_MAX, 1), nullptr);
  EXPECT_EQ(memory.at(0, 0xffffffff, 0xffffffff), nullptr);
  EXPECT_EQ(memory.at(1, 0, 1), nullptr);
  EXPECT_EQ(memory.at(0xffff, 0, 0), nullptr);
}

}  // namespace
}  // namespace uroce::memif
