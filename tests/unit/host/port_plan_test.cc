#include "host/port_plan.h"

#include <gtest/gtest.h>

#include "host/endpoint_options.h"
#include "temporary_directory.h"

namespace uroce {
namespace {

class PlanTest : public testing::Test {
 protected:
  void TearDown() override { leave_wire_ends(); }
  bool plan(const std::string& port) {
    config_.port = port;
    plan_ = PortPlan{};
    return plan_port(config_, WireEndUse::kTake, plan_, error_);
  }
  TemporaryRuntimeDir dir_;
  EndpointConfig config_;
  PortPlan plan_;
  std::string error_;
};

TEST_F(PlanTest, TheWireCarriesTheLargestRoceMtu) {
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_EQ(plan_.max_frame_bytes, 4224u);
  EXPECT_TRUE(plan_.options.wire);
  EXPECT_FALSE(plan_.options.connects);
  ASSERT_EQ(plan_.identity.addresses.size(), 1u);
  EXPECT_EQ(to_string(plan_.identity.addresses[0]), "198.18.0.1/24");
  EXPECT_NE(plan_.devargs.find("role=server"), std::string::npos);
  EXPECT_NE(plan_.devargs.find("socket=" + (dir_.path() / "wire.sock").string()), std::string::npos);
}

TEST_F(PlanTest, AddressesOfTheUserReplaceTheDefault) {
  config_.addresses = {*parse_local_address("10.1.2.3/16")};
  ASSERT_TRUE(plan(""));
  EXPECT_EQ(plan_.identity.addresses, config_.addresses);
}

TEST_F(PlanTest, TheMtuBoundsFrames) {
  config_.mtu = 1500;
  ASSERT_TRUE(plan("net_null0")) << error_;
  EXPECT_EQ(plan_.max_frame_bytes, 1518u);
}

TEST_F(PlanTest, ACardOnASharedMemoryWireHasAPlaceOfItsOwn) {
  ASSERT_TRUE(plan("net_mqnic0,card=inline,wire=shm:blue")) << error_;
  EXPECT_EQ(plan_.max_frame_bytes, 4224u);
  EXPECT_EQ(plan_.options.mtu, 4206u);
  EXPECT_TRUE(plan_.options.wire);
  EXPECT_EQ(plan_.devargs,
            "net_mqnic0,card=inline,wire=shm:blue,mac=" + to_string(take_wire_end("card-blue", error_)->mac));
  EXPECT_EQ(to_string(plan_.identity.addresses.at(0)), "198.18.0.1/24");
}

TEST_F(PlanTest, ACardHasAWireWithoutNamingIt) {
  ASSERT_TRUE(plan("net_mqnic0")) << error_;
  EXPECT_EQ(plan_.devargs.rfind("net_mqnic0,wire=shm:uroce,mac=", 0), 0u) << plan_.devargs;
}

TEST_F(PlanTest, ACardInAnotherProcessKeepsItsArguments) {
  ASSERT_TRUE(plan("net_mqnic0,card=vfio-user,socket=/run/card.sock,mac=02:00:00:00:00:07")) << error_;
  EXPECT_EQ(plan_.devargs, "net_mqnic0,card=vfio-user,socket=/run/card.sock,mac=02:00:00:00:00:07");
  EXPECT_EQ(to_string(plan_.identity.mac), "02:00:00:00:00:07");
  EXPECT_FALSE(plan_.options.wire);
}

TEST_F(PlanTest, ACardWithArgumentsThatCannotBe) {
  EXPECT_FALSE(plan("net_mqnic0,wire=shm:a/b"));
  EXPECT_NE(error_.find("wire=shm:NAME"), std::string::npos) << error_;
  EXPECT_FALSE(plan("net_mqnic0,mac=dog"));
  EXPECT_NE(error_.find("'dog' is not a MAC address"), std::string::npos) << error_;
}

TEST_F(PlanTest, AnInterfaceThatIsNotThere) {
  if (!plan("net_af_packet0,iface=uroce-nope")) {
    EXPECT_TRUE(error_.find("uroce-nope") != std::string::npos || error_.find("rights") != std::string::npos) << error_;
  } else {
    FAIL() << "planned a port on nothing";
  }
}

TEST_F(PlanTest, APciDeviceThatIsNotThere) {
  EXPECT_FALSE(plan("ffff:ff:1f.7"));
  EXPECT_NE(error_.find("ffff:ff:1f.7"), std::string::npos);
}

TEST_F(PlanTest, IdentityIsTheSameEveryTime) {
  ASSERT_TRUE(plan("net_null0"));
  const MacAddress mac = plan_.identity.mac;
  ASSERT_TRUE(plan("net_null0"));
  EXPECT_EQ(plan_.identity.mac, mac);
  ASSERT_TRUE(plan("net_null1"));
  EXPECT_FALSE(plan_.identity.mac == mac);
}

TEST(Netdevs, AnMtuThatIsTooLittleForRoceIsSaid) {
  Netdev netdev;
  netdev.name = "eth7";
  netdev.mtu = kMtuMin;
  std::string error;
  EXPECT_TRUE(carries_roce(netdev, error)) << error;
  netdev.mtu = kMtuMin - 1;
  EXPECT_FALSE(carries_roce(netdev, error));
  EXPECT_EQ(error, "interface eth7 has an MTU of 575, too little for RoCE: ip link set eth7 mtu 576 or more");
}

}  // namespace
}  // namespace uroce
