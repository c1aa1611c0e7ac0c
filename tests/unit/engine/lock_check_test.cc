// Who calls without owning is found out.
#include "engine/lock_check.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

TEST(OwnerCheckDeathTest, OnlyTheOwnerPasses) {
  LockCheck check;
  check.check();  // it follows no holder yet: anything passes
  LockHolder owner;
  owner.take();
  check.follow(owner);
  check.check();
  owner.leave();
  EXPECT_DEATH(check.check(), "an engine is used by the thread that owns it");
}

}  // namespace
}  // namespace uroce::test
