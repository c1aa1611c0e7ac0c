// Who calls without owning is found out.
#include "engine/owner_check.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

TEST(OwnerCheckDeathTest, OnlyTheOwnerPasses) {
  OwnerCheck check;
  check.check();  // nobody says who it is
  Owner owner;
  owner.take();
  check.follow(owner);
  check.check();
  owner.leave();
  EXPECT_DEATH(check.check(), "an engine is used by the thread that owns it");
}

}  // namespace
}  // namespace uroce::test
