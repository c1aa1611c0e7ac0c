// Ranges of this process's memory, asked both ways: Linux before 6.11 has the text alone.
#include "host/mappings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace uroce {
namespace {

/// Adjacent pages with nothing behind the last; where their rights differ, each is a mapping of its own.
class MappingsTest : public testing::TestWithParam<MapsInterface> {
 protected:
  explicit MappingsTest(size_t pages = 8) : bytes_((pages + 1) * kPage) {
    memory_ = static_cast<std::byte*>(mmap(nullptr, bytes_, kBoth, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(memory_, MAP_FAILED);
    munmap(page(pages), kPage);
  }
  ~MappingsTest() override { munmap(memory_, bytes_); }
  std::byte* page(size_t index) const { return memory_ + index * kPage; }
  void protect(size_t index, int rights) { ASSERT_EQ(mprotect(page(index), kPage, rights), 0); }
  /// Expects `state` of [from, to), and that it begins at `at`.
  void expect(const std::byte* from, const std::byte* to, Need need, RangeState state, const std::byte* at = nullptr) {
    const RangeAnswer answer = check_range(from, static_cast<uint64_t>(to - from), need, GetParam());
    EXPECT_EQ(answer.state, state);
    if (at != nullptr) {
      EXPECT_EQ(reinterpret_cast<const std::byte*>(answer.at), at);
    }
  }

  static constexpr int kBoth = PROT_READ | PROT_WRITE;
  const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t bytes_;
  std::byte* memory_;
};

TEST_P(MappingsTest, EveryPageOfTheRangeCounts) {
  expect(page(0), page(8), Need::kWrite, RangeState::kUsable);
  protect(5, PROT_READ);
  expect(page(0), page(8), Need::kRead, RangeState::kUsable);
  expect(page(0), page(8), Need::kWrite, RangeState::kNotWritable, page(5));
  expect(page(0), page(5), Need::kWrite, RangeState::kUsable);
  expect(page(0), page(5) + 1, Need::kWrite, RangeState::kNotWritable, page(5));
  expect(page(6) - 1, page(8), Need::kWrite, RangeState::kNotWritable, page(6) - 1);
  expect(page(6), page(8), Need::kWrite, RangeState::kUsable);
  protect(3, PROT_NONE);
  expect(page(0), page(8), Need::kRead, RangeState::kNotReadable, page(3));
  expect(page(4), page(8), Need::kRead, RangeState::kUsable);
}

TEST_P(MappingsTest, WhatIsNotMappedIsNamed) {
  expect(page(7), page(8) + 1, Need::kRead, RangeState::kNotMapped, page(8));
  expect(page(8), page(9), Need::kRead, RangeState::kNotMapped, page(8));
  ASSERT_EQ(munmap(page(2), kPage), 0);
  expect(page(1), page(4), Need::kRead, RangeState::kNotMapped, page(2));
  expect(page(1), page(2), Need::kRead, RangeState::kUsable);
  expect(page(3), page(8), Need::kRead, RangeState::kUsable);
}

/// The text of so many mappings is longer than one read.
class ManyMappingsTest : public MappingsTest {
 protected:
  ManyMappingsTest() : MappingsTest(600) {
    for (size_t i = 0; i < 600; i += 2) protect(i, PROT_READ);
  }
};

TEST_P(ManyMappingsTest, AreCrossed) {
  expect(page(0), page(600), Need::kRead, RangeState::kUsable);
  expect(page(599), page(600), Need::kWrite, RangeState::kUsable);
  expect(page(599), page(601), Need::kWrite, RangeState::kNotMapped, page(600));
  protect(597, PROT_NONE);
  expect(page(0), page(600), Need::kRead, RangeState::kNotReadable, page(597));
}

const auto kBothWays = testing::Values(MapsInterface::kQuery, MapsInterface::kText);
INSTANTIATE_TEST_SUITE_P(Both, MappingsTest, kBothWays);
INSTANTIATE_TEST_SUITE_P(Both, ManyMappingsTest, kBothWays);

}  // namespace
}  // namespace uroce
