// What is written after --vdev=net_udp0.
#include "pmd/udp/arguments.h"

#include <gtest/gtest.h>

namespace uroce::udp {
namespace {

TEST(UdpArguments, EveryOneIsRead) {
  Arguments got;
  std::string error;
  ASSERT_TRUE(
      parse_arguments("net_udp3", "iface=eth0,mac=02:00:00:00:00:05,addr=10.0.0.5/24,addr=fd00::5/64", got, error))
      << error;
  EXPECT_EQ(got.device, "net_udp3");
  EXPECT_EQ(got.iface, "eth0");
  EXPECT_EQ(got.mac, parse_mac("02:00:00:00:00:05"));
  EXPECT_EQ(got.addresses,
            (std::vector<LocalAddress>{*parse_local_address("10.0.0.5/24"), *parse_local_address("fd00::5/64")}));
}

TEST(UdpArguments, ABadOneIsNamedInOneLine) {
  for (const char* bad : {"iface=", "mac=1", "mac=01:00:5e:00:00:01", "mac=00:00:00:00:00:00", "addr=10.0.0.5.6",
                          "addr=", "addr=10.0.0.5/24@7", "addr=224.0.0.1/4", "socket=/x", "mac", "=5"}) {
    Arguments got;
    std::string error;
    EXPECT_FALSE(parse_arguments("net_udp0", (std::string("iface=lo,") + bad).c_str(), got, error)) << bad;
    EXPECT_NE(error.find(bad), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace uroce::udp
