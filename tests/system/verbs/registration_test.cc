// What may be registered: memory that the processor can use as the access flags say. Hardware finds out when it pins.
#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>

#include "mapped.h"
#include "verbs_fixture.h"

namespace {

using namespace verbs_test;
using uroce::test::kPage;
using uroce::test::Mapped;

constexpr int kReadOnly = IBV_ACCESS_REMOTE_READ;

class RegistrationTest : public testing::Test {
 protected:
  /// Returns 0 or the errno.
  int try_register(void* addr, size_t length, int access = kAllAccess) {
    errno = 0;
    const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), addr, length, access));
    return mr != nullptr ? 0 : errno;
  }

  Owned<ibv_pd> pd_{ibv_alloc_pd(device())};
};

TEST_F(RegistrationTest, WhatIsNotMapped) {
  EXPECT_EQ(try_register(nullptr, 4096), EFAULT);
  EXPECT_EQ(try_register(reinterpret_cast<void*>(0x10000), 1), EFAULT);
  Mapped memory(4 * kPage);
  memory.unmap(2 * kPage);
  EXPECT_EQ(try_register(memory.data(), 2 * kPage), 0);
  EXPECT_EQ(try_register(memory.data(), 2 * kPage + 1), EFAULT);
  EXPECT_EQ(try_register(memory.data() + 2 * kPage, 1), EFAULT);
  EXPECT_EQ(try_register(memory.data(), size_t{1} << 40), EFAULT);  // a terabyte of address space
}

TEST_F(RegistrationTest, NoProcessHasThatAddress) {
  EXPECT_EQ(try_register(reinterpret_cast<void*>(0xDEAD00000000BEEF), 64), EFAULT);
  EXPECT_EQ(try_register(reinterpret_cast<void*>(UINT64_MAX - 10), 100), EINVAL);  // wraps
}

TEST_F(RegistrationTest, RightsOfTheMapping) {
  Mapped memory(kPage, Mapped::Of::kNothing, PROT_READ);
  EXPECT_EQ(try_register(memory.data(), kPage, kReadOnly), 0);
  EXPECT_EQ(try_register(memory.data(), kPage, 0), 0);
  EXPECT_EQ(try_register(memory.data(), kPage, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(try_register(memory.data(), kPage, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), EFAULT);
  memory.protect(PROT_NONE);
  EXPECT_EQ(try_register(memory.data(), kPage, 0), EFAULT);
}

TEST_F(RegistrationTest, OnePageInTheMiddle) {
  Mapped memory(64 * kPage);
  ASSERT_EQ(mprotect(memory.data() + 40 * kPage, kPage, PROT_NONE), 0);
  EXPECT_EQ(try_register(memory.data(), 64 * kPage), EFAULT);
  EXPECT_EQ(try_register(memory.data(), 40 * kPage), 0);
  ASSERT_EQ(mprotect(memory.data() + 40 * kPage, kPage, PROT_READ), 0);
  EXPECT_EQ(try_register(memory.data(), 64 * kPage, kReadOnly), 0);
  EXPECT_EQ(try_register(memory.data(), 64 * kPage), EFAULT);
}

TEST_F(RegistrationTest, TextAndConstants) {
  static const char kConstant[] = "read only";
  void* const constant = const_cast<char*>(kConstant);
  EXPECT_EQ(try_register(constant, sizeof kConstant, kReadOnly), 0);
  EXPECT_EQ(try_register(constant, sizeof kConstant, IBV_ACCESS_LOCAL_WRITE), EFAULT);
}

TEST_F(RegistrationTest, Files) {
  Mapped shared(8 * kPage, Mapped::Of::kFile);
  EXPECT_EQ(try_register(shared.data(), 8 * kPage), 0);
  shared.cut(kPage);  // the mapping stays: nothing is touched, so the file's length is not noticed
  EXPECT_EQ(try_register(shared.data(), 8 * kPage), 0);
}

long pages_in_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// A sparse region stays sparse, since nothing is touched.
TEST_F(RegistrationTest, TerabytesWithoutMemoryBehind) {
  constexpr size_t kTerabyte = size_t{1} << 40;
  Mapped memory(kTerabyte);
  try_register(memory.data(), kPage);
  const long before = pages_in_memory();
  EXPECT_EQ(try_register(memory.data(), kTerabyte), 0);
  EXPECT_LT(pages_in_memory() - before, 100);
  unsigned char resident = 1;
  ASSERT_EQ(mincore(memory.data(), kPage, &resident), 0);
  EXPECT_EQ(resident & 1, 0);
}

/// The stack grows when it is touched, and a buffer on it may not have been.
__attribute__((noinline)) int register_deep_in_the_stack(ibv_pd* pd) {
  volatile uint8_t buffer[1 << 20];
  const Owned<ibv_mr> mr(ibv_reg_mr(pd, const_cast<uint8_t*>(buffer), sizeof buffer, kAllAccess));
  return mr != nullptr ? 0 : errno;
}

TEST_F(RegistrationTest, StackThatHasNotGrownYet) { EXPECT_EQ(register_deep_in_the_stack(pd_.get()), 0); }

TEST_F(RegistrationTest, Reregistration) {
  Mapped memory(2 * kPage);
  Mapped constant(kPage, Mapped::Of::kNothing, PROT_READ);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), memory.data(), kPage, kReadOnly));
  ASSERT_NE(mr, nullptr);
  memory.unmap(kPage);
  errno = 0;
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(), 2 * kPage, 0), 0);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(mr->length, kPage);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, constant.data(), kPage, 0), 0);
  errno = 0;
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(errno, EFAULT);
}

}  // namespace
