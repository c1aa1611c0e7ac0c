// The list of tagged receives: which one a message gets, and what a handle is good for.
#include "transport/tag_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace uroce::test {
namespace {

TaggedReceive tagged(uint64_t wr_id, uint64_t tag, uint64_t mask = ~uint64_t{0}) {
  return {.wr_id = wr_id, .tag = tag, .mask = mask};
}

/// The wr_id of the receive that a message with this tag takes; 0 when there is none.
uint64_t taken(TagList& list, uint64_t tag) {
  const TaggedReceive* receive = list.take(tag);
  return receive != nullptr ? receive->wr_id : 0;
}

TEST(TagListTest, TheOldestThatMatches) {
  TagList list(4);
  list.add(tagged(1, 0x10));
  list.add(tagged(2, 0x20));
  list.add(tagged(3, 0x10));
  EXPECT_FALSE(list.has(0x30));
  EXPECT_EQ(taken(list, 0x30), 0u);
  EXPECT_EQ(taken(list, 0x20), 2u);
  EXPECT_EQ(taken(list, 0x10), 1u);
  EXPECT_EQ(taken(list, 0x10), 3u);
  EXPECT_EQ(taken(list, 0x10), 0u);
  EXPECT_EQ(list.size(), 0u);
}

TEST(TagListTest, MasksSayWhichBitsCount) {
  TagList list(4);
  list.add(tagged(1, 0x1200, 0xff00));
  list.add(tagged(2, 0, 0));            // matches every tag
  list.add(tagged(3, 0x1234, 0xff00));  // has a bit outside its mask: matches no tag
  EXPECT_EQ(taken(list, 0xabcd12ffu), 1u);
  EXPECT_EQ(taken(list, 0x1234), 2u);
  EXPECT_EQ(taken(list, 0x1234), 0u);
  EXPECT_EQ(list.size(), 1u);
}

TEST(TagListTest, ElementsAreCopied) {
  TagList list(2);
  Sge sges[TagList::kSgesMax] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
  list.add({.wr_id = 1, .tag = 1, .mask = 1, .sges = sges, .num_sge = TagList::kSgesMax});
  sges[3] = {};
  const TaggedReceive* receive = list.take(1);
  ASSERT_NE(receive, nullptr);
  ASSERT_EQ(receive->num_sge, 4u);
  EXPECT_EQ(receive->sges[3].addr, 10u);
  EXPECT_EQ(receive->sges[3].lkey, 12u);
}

TEST(TagListTest, AHandleIsGoodOnce) {
  TagList list(2);
  const uint32_t first = list.add(tagged(1, 1));
  const uint32_t second = list.add(tagged(2, 2));
  EXPECT_NE(first, 0u);
  EXPECT_EQ(list.add(tagged(3, 3)), 0u);  // full
  EXPECT_TRUE(list.remove(first));
  EXPECT_FALSE(list.remove(first));
  EXPECT_EQ(taken(list, 2), 2u);
  EXPECT_FALSE(list.remove(second));
  for (const uint32_t other : {0u, 1u, 0xffffu, 0xffffffffu}) EXPECT_FALSE(list.remove(other)) << other;
  const uint32_t again = list.add(tagged(4, 4));
  EXPECT_TRUE(again != first && again != second);
  EXPECT_FALSE(list.remove(first));
  EXPECT_FALSE(list.remove(second));
  EXPECT_TRUE(list.remove(again));
}

/// Compared with a plain vector.
TEST(TagListTest, LikeAVector) {
  struct Known {
    uint64_t wr_id, tag, mask;
    uint32_t handle;
  };
  SeededRandom random(7);
  TagList list(16);
  std::vector<Known> model;
  for (uint64_t i = 1; i <= 20000; i++) {
    const uint64_t tag = random.next_u32() % 8;
    switch (random.next_u32() % 4) {
      case 0:
      case 1: {
        const uint64_t mask = random.next_u32() % 8;
        const uint32_t handle = list.add(tagged(i, tag & mask, mask));
        ASSERT_EQ(handle != 0, model.size() < 16);
        if (handle != 0) model.push_back({i, tag & mask, mask, handle});
        break;
      }
      case 2: {
        const auto at = std::find_if(model.begin(), model.end(), [&](auto& k) { return (tag & k.mask) == k.tag; });
        ASSERT_EQ(taken(list, tag), at != model.end() ? at->wr_id : 0);
        if (at != model.end()) model.erase(at);
        break;
      }
      default:
        if (model.empty()) break;
        const size_t at = random.next_u32() % model.size();
        ASSERT_TRUE(list.remove(model[at].handle));
        model.erase(model.begin() + static_cast<ptrdiff_t>(at));
    }
    ASSERT_EQ(list.size(), model.size());
  }
}

}  // namespace
}  // namespace uroce::test
