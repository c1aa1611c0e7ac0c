// Ports that a DPDK application has already, found by what `port` says.
#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

#include "dpdk/existing_port.h"
#include "eal_environment.h"

namespace uroce {
namespace {

class ExistingPortTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ring_ = rte_ring_create("idle", 16, SOCKET_ID_ANY, 0);
    for (const int i : {0, 1}) {
      ids_[i] = rte_eth_from_rings(("net_ring_there" + std::to_string(i)).c_str(), &ring_, 1, &ring_, 1, 0);
      ASSERT_GE(ids_[i], 0);
    }
  }
  static std::string name(int i) { return "net_ring_net_ring_there" + std::to_string(i); }

  bool plan(const std::string& port) {
    config_.eal_running = true;
    config_.port = port;
    plan_ = PortPlan{};
    error_.clear();
    return plan_existing_port(config_, plan_, error_);
  }

  static inline rte_ring* ring_ = nullptr;
  static inline int ids_[2] = {-1, -1};
  EndpointConfig config_;
  PortPlan plan_;
  std::string error_;
};

TEST_F(ExistingPortTest, ByNumberAndByName) {
  for (const int i : {0, 1}) {
    for (const std::string& port : {std::to_string(ids_[i]), name(i)}) {
      ASSERT_TRUE(plan(port)) << error_;
      EXPECT_EQ(plan_.options.port_id, ids_[i]) << port;
      EXPECT_EQ(plan_.name, name(i));
      EXPECT_FALSE(plan_.options.unplug) << "it is the application's";
      rte_ether_addr mac{};
      ASSERT_EQ(rte_eth_macaddr_get(static_cast<uint16_t>(ids_[i]), &mac), 0);
      EXPECT_TRUE(std::equal(mac.addr_bytes, mac.addr_bytes + 6, plan_.identity.mac.bytes.begin()));
    }
  }
}

TEST_F(ExistingPortTest, TheFirstWhenNoneIsNamed) {
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_EQ(plan_.options.port_id, 0);
}

TEST_F(ExistingPortTest, OneThatIsNotThereIsNamed) {
  for (const char* port : {"31", "65536", "net_ring_there2"}) {
    EXPECT_FALSE(plan(port));
    EXPECT_EQ(error_, "DPDK has no port '" + std::string(port) +
                          "': give EAL one, for example --vdev=net_af_packet0,iface=eth0");
  }
}

}  // namespace
}  // namespace uroce
