#include "base/untouched_array.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace uroce {
namespace {

struct alignas(16) Wide {
  uint64_t words[4];
};

template <typename T>
bool is_aligned(const T& item) {
  return reinterpret_cast<uintptr_t>(&item) % alignof(T) == 0;
}

TEST(UntouchedBlock, HoldsArraysOfAllSizesSideBySide) {
  constexpr size_t kOddBytes = 7;  // the next array would not be aligned by itself
  constexpr size_t kWides = 3;
  constexpr size_t kWords = 5;
  UntouchedBlock block(UntouchedBlock::bytes_for<uint8_t>(kOddBytes) + UntouchedBlock::bytes_for<Wide>(kWides) +
                       UntouchedBlock::bytes_for<uint16_t>(0) + UntouchedBlock::bytes_for<uint64_t>(kWords));
  UntouchedArray<uint8_t> bytes(block, kOddBytes);
  UntouchedArray<Wide> wides(block, kWides);
  const UntouchedArray<uint16_t> none(block, 0);
  UntouchedArray<uint64_t> words(block, kWords);
  for (size_t i = 0; i < kOddBytes; i++) bytes[i] = static_cast<uint8_t>(i + 1);
  for (uint64_t i = 0; i < kWides; i++) wides[i] = {{i, 2 * i, 3 * i, 4 * i}};
  for (size_t i = 0; i < kWords; i++) words[i] = ~i;
  EXPECT_TRUE(is_aligned(wides[0]) && is_aligned(words[0]));
  for (size_t i = 0; i < kOddBytes; i++) EXPECT_EQ(bytes[i], i + 1);
  for (uint64_t i = 0; i < kWides; i++) EXPECT_EQ(wides[i].words[3], 4 * i);
  for (size_t i = 0; i < kWords; i++) EXPECT_EQ(words[i], ~i);
}

TEST(UntouchedBlockDeathTest, GivesNoMoreThanItHas) {
  UntouchedBlock block(UntouchedBlock::bytes_for<uint64_t>(4));
  EXPECT_DEATH(block.take<uint64_t>(5), "a block has room for all its arrays");
  block.take<uint64_t>(2);
  block.take<uint64_t>(2);
  EXPECT_DEATH(block.take<uint8_t>(1), "a block has room for all its arrays");
}

TEST(UntouchedBlock, StaysWhereItIsWhenItsOwnerMoves) {
  UntouchedBlock block(UntouchedBlock::bytes_for<int>(8) + UntouchedBlock::bytes_for<int>(4));
  UntouchedArray<int> first(block, 8);
  first[7] = 77;
  UntouchedBlock moved(std::move(block));
  UntouchedArray<int> second(moved, 4);
  second[0] = 1;
  UntouchedBlock assigned;
  assigned = std::move(moved);
  UntouchedArray<int> other = std::move(first);
  EXPECT_EQ(other[7], 77);
  EXPECT_EQ(second[0], 1);
}

TEST(UntouchedArray, OwnsWhatIsInNoBlock) {
  UntouchedArray<int> array(3);
  array[2] = 5;
  UntouchedArray<int> other = std::move(array);
  array = UntouchedArray<int>(2);
  array[1] = 6;
  std::swap(array, other);
  EXPECT_EQ(array[2], 5);
  EXPECT_EQ(other[1], 6);
}

}  // namespace
}  // namespace uroce
