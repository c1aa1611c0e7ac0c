#include "base/ring.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <deque>
#include <utility>
#include <vector>

#include "base/random.h"

namespace uroce {
namespace {

TEST(Ring, IsFirstInFirstOut) {
  Ring<int> ring(3);
  EXPECT_TRUE(ring.empty());
  ring.push(1);
  ring.push(2);
  ring.next_slot() = 3;
  ring.push();
  EXPECT_EQ(ring.size(), 3u);
  EXPECT_EQ(ring.front(), 1);
  ring.pop();
  EXPECT_EQ(ring.front(), 2);
  ring.pop();
  EXPECT_EQ(ring.front(), 3);
  ring.pop();
  EXPECT_TRUE(ring.empty());
}

TEST(Ring, IsFullAtItsCapacityAndNotAtItsStorage) {
  Ring<int> ring(5);
  EXPECT_EQ(ring.capacity(), 5u);
  EXPECT_EQ(ring.slots(), 8u);
  for (int i = 0; i < 5; i++) {
    EXPECT_FALSE(ring.full());
    ring.push(i);
  }
  EXPECT_TRUE(ring.full());
  ring.pop();
  EXPECT_FALSE(ring.full());
}

TEST(Ring, PositionsStayWhileQueued) {
  Ring<int> ring(4);
  ring.push(10);
  ring.push(11);
  const uint32_t second = ring.head() + 1;
  ring.pop();
  ring.push(12);
  EXPECT_EQ(ring.at(second), 11);
  EXPECT_EQ(ring.head(), second);
  EXPECT_EQ(ring.at(second + 1), 12);
  EXPECT_LT(ring.slot(second + 1), ring.slots());
}

TEST(Ring, TruncateDropsTheNewest) {
  Ring<int> ring(4);
  for (int i = 0; i < 4; i++) ring.push(i);
  ring.truncate(ring.head() + 1);
  EXPECT_EQ(ring.size(), 1u);
  EXPECT_EQ(ring.front(), 0);
  ring.push(7);
  EXPECT_EQ(ring.at(ring.head() + 1), 7);
  ring.clear();
  EXPECT_TRUE(ring.empty());
}

TEST(Ring, ZeroCapacityIsAlwaysFull) {
  const Ring<int> ring(0);
  EXPECT_TRUE(ring.full());
  EXPECT_TRUE(ring.empty());
}

long pages_touched() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(Ring, ALargeOneCostsNothingUntilItIsUsed) {
  struct Item {
    uint64_t words[8] = {};
  };
  constexpr uint32_t kItems = 1 << 20;
  constexpr long kPages = kItems * sizeof(Item) / 4096;
  mallopt(M_PERTURB, 0);  // Meson's setting would have malloc write to all memory that it returns
  const long before = pages_touched();
  Ring<Item> ring(kItems);
  ring.push({{7}});
  EXPECT_LT(pages_touched() - before, kPages / 4);  // a sanitizer's shadow takes an eighth
  EXPECT_EQ(ring.front().words[0], 7u);
  Ring<Item> other = std::move(ring);
  EXPECT_EQ(other.front().words[0], 7u);
}

TEST(Ring, MayLieInABlockBesideOthers) {
  UntouchedBlock block(UntouchedBlock::bytes_for<uint32_t>(Ring<uint32_t>::slots_for(5)) +
                       UntouchedBlock::bytes_for<uint64_t>(Ring<uint64_t>::slots_for(0)));
  Ring<uint32_t> five(5, block);
  Ring<uint64_t> none(0, block);
  EXPECT_EQ(five.slots(), 8u);
  EXPECT_TRUE(none.full());
  none.next_slot() = UINT64_MAX;
  for (uint32_t round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < 5; i++) five.push(i);
    EXPECT_TRUE(five.full());
    for (uint32_t i = 0; i < 5; i++, five.pop()) EXPECT_EQ(five.front(), i);
  }
  EXPECT_EQ(none.next_slot(), UINT64_MAX);
}

/// Elements with constructors are constructed with the ring, and destroyed with it.
TEST(Ring, HoldsWhatIsNotPlain) {
  Ring<std::vector<int>> ring(2);
  ring.next_slot().assign(3, 9);
  ring.push();
  EXPECT_EQ(ring.front().size(), 3u);
  EXPECT_TRUE(ring.next_slot().empty());
}

TEST(Ring, AgreesWithADequeOverAMillionSteps) {
  SeededRandom random(7);
  Ring<uint32_t> ring(13);
  std::deque<uint32_t> model;
  for (int step = 0; step < 1000000; step++) {
    if (random.below(2) == 0 && !ring.full()) {
      const uint32_t v = random.next_u32();
      ring.push(v);
      model.push_back(v);
    } else if (!ring.empty()) {
      ASSERT_EQ(ring.front(), model.front());
      ring.pop();
      model.pop_front();
    }
    ASSERT_EQ(ring.size(), model.size());
    ASSERT_EQ(ring.full(), model.size() == 13);
  }
}

}  // namespace
}  // namespace uroce
