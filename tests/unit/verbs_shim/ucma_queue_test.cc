// Room for the events of connection management: each id has its own.
#include "ucma_queue.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

namespace {
bool refuses = false;  // whether there is no memory
}

void* operator new(std::size_t bytes) {
  void* const memory = refuses ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace uroce::verbs {
namespace {

constexpr uint32_t kPlaces = UcmaQueue::kPlacesOfId;

class UcmaQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    for (UcmaPlaces* const places : {&first_, &second_}) queue_.add(*places, UcmaQueue::make_room(kPlaces));
  }
  void TearDown() override { refuses = false; }

  /// False: there is no memory for the event.
  static bool push(UcmaQueue& queue, UcmaPlaces& places) {
    const size_t before = queue.events().size();
    try {
      queue.push({}, places);
      return queue.events().size() == before + 1;
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(queue.events().size(), before);
      return false;
    }
  }
  static uint32_t push_all(UcmaQueue& queue, UcmaPlaces& places) {
    refuses = true;
    uint32_t pushed = 0;
    while (push(queue, places)) pushed++;
    refuses = false;
    return pushed;
  }
  static size_t free_places(const UcmaPlaces& places) { return places.all - places.taken; }

  UcmaQueue queue_;
  UcmaPlaces first_, second_;
};

TEST_F(UcmaQueueTest, NoIdTakesAnothersPlaces) {
  for (int i = 0; i < 10; i++) EXPECT_TRUE(push(queue_, first_)) << "with memory";
  EXPECT_EQ(push_all(queue_, first_), 0u);
  EXPECT_EQ(push_all(queue_, second_), kPlaces);
}

TEST_F(UcmaQueueTest, WrittenEventsTakeNoPlaces) {
  for (int i = 0; i < 10; i++) queue_.push_beside({});
  EXPECT_EQ(push_all(queue_, first_), kPlaces);
  EXPECT_EQ(push_all(queue_, second_), kPlaces);
  while (!queue_.events().empty()) queue_.pop(queue_.events().begin());
  EXPECT_EQ(queue_.room(), 2 * kPlaces) << "nothing is kept of what was beside";
  EXPECT_EQ(push_all(queue_, first_), kPlaces);
}

TEST_F(UcmaQueueTest, AGroupBringsAPlaceAndTakesItAway) {
  UcmaPlaces group;
  queue_.add(group, UcmaQueue::make_room(UcmaQueue::kPlacesOfMulticast));
  EXPECT_EQ(push_all(queue_, first_), kPlaces);
  EXPECT_EQ(push_all(queue_, group), 1u);
  queue_.pop(std::prev(queue_.events().end()));
  queue_.remove(group);
  EXPECT_EQ(queue_.room(), kPlaces) << "those of the second";
}

TEST_F(UcmaQueueTest, WhoMovesTakesHisPlacesAndLeavesTheOthersTheirs) {
  for (const uint32_t waiting : {0u, 2u, kPlaces, kPlaces + 6}) {
    UcmaQueue from, to;
    UcmaPlaces goes, stays;
    for (UcmaPlaces* const places : {&goes, &stays}) from.add(*places, UcmaQueue::make_room(kPlaces));
    for (uint32_t i = 0; i < waiting; i++) ASSERT_TRUE(push(from, goes));
    refuses = true;
    while (!from.events().empty()) from.move_event(from.events().begin(), to);
    from.move_places(goes, to);
    refuses = false;
    EXPECT_EQ(from.room(), free_places(stays)) << waiting << " events";
    EXPECT_EQ(to.room(), free_places(goes)) << waiting << " events";
    EXPECT_EQ(push_all(from, stays), kPlaces) << waiting << " events";
    while (!to.events().empty()) to.pop(to.events().begin());
    EXPECT_EQ(push_all(to, goes), kPlaces) << waiting << " events";
  }
}

}  // namespace
}  // namespace uroce::verbs
