// What we promise ourselves, broken: the process ends and says where, also in a release build.
#include "base/check.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/lock_holder.h"
#include "base/ring.h"

namespace uroce {
namespace {

TEST(CheckDeathTest, SaysWhereAndWhat) {
  ensure(true, "nothing happens");
  EXPECT_DEATH(ensure(1 + 1 == 3, "one and one are three"),
               "uroce: .*check_test\\.cc:[0-9]+: not so: one and one are three\\. This is a mistake in uroce itself");
}

TEST(CheckDeathTest, ARingHasItsBounds) {
  Ring<int> ring(2);
  EXPECT_DEATH(ring.pop(), "there is something in the ring");
  ring.push(1);
  ring.push(2);
  EXPECT_DEATH(ring.push(3), "there is room in the ring");
  EXPECT_DEATH(ring.push(), "there is room in the ring");
  EXPECT_DEATH(ring.truncate(ring.tail() + 1), "what is dropped was in the ring");
}

TEST(LockHolder, IsOneThreadAtATime) {
  LockHolder owner;
  EXPECT_FALSE(owner.is_me());
  owner.take();
  EXPECT_TRUE(owner.is_me());
  std::thread([&] {
    EXPECT_FALSE(owner.is_me());
    owner.take();
    EXPECT_TRUE(owner.is_me());
    owner.leave();
    EXPECT_FALSE(owner.is_me());
  }).join();
  EXPECT_FALSE(owner.is_me());
}

}  // namespace
}  // namespace uroce
