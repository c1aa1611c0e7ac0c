// Lcore ids that go to endpoints and come back.
#include "dpdk/lcore_lease.h"

#include <gtest/gtest.h>
#include <rte_lcore.h>

#include <string>

#include "eal_environment.h"

namespace uroce {
namespace {

TEST(LcoreLease, AnIdOfItsOwnIsGivenBack) {
  LcoreLease first;
  std::string error;
  ASSERT_TRUE(first.take(rte_get_main_lcore(), error)) << error;
  const unsigned before = rte_lcore_count();
  for (int i = 0; i <= RTE_MAX_LCORE; i++) {  // more often than there are ids
    LcoreLease second;
    ASSERT_TRUE(second.take(rte_get_main_lcore(), error)) << i << ": " << error;
    EXPECT_NE(second.id(), first.id());
    EXPECT_EQ(rte_eal_lcore_role(second.id()), ROLE_NON_EAL);
    second.give_back();
    ASSERT_EQ(rte_eal_lcore_role(second.id()), ROLE_OFF) << "DPDK has it for others";
  }
  EXPECT_EQ(rte_lcore_count(), before);
}

TEST(LcoreLease, ThePreferredIdIsGivenBack) {
  std::string error;
  for (int i = 0; i < 3; i++) {
    LcoreLease first;
    ASSERT_TRUE(first.take(rte_get_main_lcore(), error)) << error;
    EXPECT_EQ(first.id(), rte_get_main_lcore());
  }
}

}  // namespace
}  // namespace uroce
