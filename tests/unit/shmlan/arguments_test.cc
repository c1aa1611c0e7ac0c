// What is written after --vdev=net_shmlan0.
#include "pmd/shmlan/arguments.h"

#include <gtest/gtest.h>

#include "pmd/shmlan/membership.h"
#include "rig.h"

namespace uroce::shmlan {
namespace {

using namespace test;

TEST(ShmlanArguments, EveryOneIsRead) {
  Arguments got;
  std::string error;
  ASSERT_TRUE(parse_arguments(
      "net_shmlan3", "segment=lab,mac=02:00:00:00:00:05,addr=10.0.0.5/24,dir=/run/x,addr=fd00::5/64@7", got, error))
      << error;
  EXPECT_EQ(got.device, "net_shmlan3");
  EXPECT_EQ(got.segment, "lab");
  EXPECT_EQ(got.dir, "/run/x");
  EXPECT_EQ(got.mac, parse_mac("02:00:00:00:00:05"));
  EXPECT_EQ(got.addresses,
            (std::vector<LocalAddress>{*parse_local_address("10.0.0.5/24"), *parse_local_address("fd00::5/64@7")}));
}

TEST(ShmlanArguments, NoneIsNeeded) {
  for (const char* text : {static_cast<const char*>(nullptr), "", ","}) {
    Arguments got;
    std::string error;
    EXPECT_TRUE(parse_arguments("net_shmlan0", text, got, error)) << error;
    EXPECT_FALSE(got.mac);
    EXPECT_EQ(got.segment + got.dir, "");
  }
}

TEST(ShmlanArguments, ABadOneIsNamedInOneLine) {
  for (const char* bad : {"segment=", "segment=a/b", "mac=1", "mac=01:00:5e:00:00:01", "mac=00:00:00:00:00:00",
                          "addr=10.0.0.5.6", "addr=", "dir=", "socket=/x", "mac", "=5"}) {
    Arguments got;
    std::string error;
    EXPECT_FALSE(parse_arguments("net_shmlan0", (std::string("segment=lab,") + bad).c_str(), got, error)) << bad;
    EXPECT_NE(error.find(bad), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

using ShmlanProbe = ShmlanTest;

TEST_F(ShmlanProbe, WhatCannotBeMakesNoPort) {
  EXPECT_NE(TestPort("net_shmlan0", dir.path(), "mac=1").code, 0);
  EXPECT_NE(TestPort("net_shmlan0", dir.path() + "/nowhere/else").code, 0);
  EXPECT_EQ(rte_eth_dev_count_avail(), 0u);
}

/// The error names the device: an application may have several.
TEST_F(ShmlanProbe, WhatCannotBeIsSaidWithTheDevicesName) {
  Arguments arguments;
  arguments.device = "net_shmlan7";
  arguments.dir = dir.path() + "/nowhere/else";
  Joined joined;
  std::string error;
  EXPECT_FALSE(join_segment(arguments, joined, error));
  EXPECT_EQ(error.rfind("net_shmlan7: ", 0), 0u) << error;
  EXPECT_NE(error.find(arguments.dir + "/shmlan"), std::string::npos) << error;
}

}  // namespace
}  // namespace uroce::shmlan
