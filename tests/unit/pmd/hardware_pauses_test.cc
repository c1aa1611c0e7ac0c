// Priority flow control by the device: what DpdkPort asks a driver for. Ours refuses (the card has none), so its
// refusal is replaced by one that writes down what it was asked.
#include <gmock/gmock.h>

#include "dpdk/dpdk_port.h"
#include "pmd/ethdev/dpdk_driver.h"
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Asked {
  int priority;
  rte_eth_fc_mode mode;
  int pause_time;
  bool operator==(const Asked&) const = default;
};

std::vector<Asked> asked;
int refused_priority = -1;

int write_down(rte_eth_dev*, rte_eth_pfc_conf* config) {
  if (config->priority == refused_priority) return -EINVAL;
  asked.push_back({config->priority, config->fc.mode, config->fc.pause_time});
  return 0;
}

class HardwarePauses : public DriverRig {
 protected:
  void start_port() {
    ASSERT_EQ(attach(), 0);
    uroce::DpdkPortOptions options;
    options.port_id = port;
    options.pool = pool;
    options.unplug = false;
    std::string error;
    dpdk_port = uroce::DpdkPort::start(options, error);
    ASSERT_NE(dpdk_port, nullptr) << error;
  }
  void start_with_own_answers() {
    start_port();
    ops = *rte_eth_devices[port].dev_ops;
    ops.priority_flow_ctrl_set = write_down;
    rte_eth_devices[port].dev_ops = &ops;
    asked.clear();
    refused_priority = -1;
  }
  void TearDown() override {
    dpdk_port.reset();
    DriverRig::TearDown();
  }
  eth_dev_ops ops{};
  std::unique_ptr<uroce::DpdkPort> dpdk_port;
};

TEST_F(HardwarePauses, EachPriorityBothWays) {
  start_with_own_answers();
  EXPECT_TRUE(dpdk_port->pause_in_hardware(0b0000'1010));
  EXPECT_THAT(asked, ElementsAre(Asked{1, RTE_ETH_FC_FULL, 0xFFFF}, Asked{3, RTE_ETH_FC_FULL, 0xFFFF}));
}

TEST_F(HardwarePauses, AllOrNone) {
  start_with_own_answers();
  refused_priority = 5;
  EXPECT_FALSE(dpdk_port->pause_in_hardware(0b0010'1000));
  EXPECT_THAT(asked, ElementsAre(Asked{3, RTE_ETH_FC_FULL, 0xFFFF}, Asked{3, RTE_ETH_FC_NONE, 0xFFFF}));
}

TEST_F(HardwarePauses, NotAskedWithoutPriorities) {
  start_with_own_answers();
  EXPECT_FALSE(dpdk_port->pause_in_hardware(0));
  EXPECT_THAT(asked, IsEmpty());
}

/// The card has none: the engine does them in software.
TEST_F(HardwarePauses, OurCardRefuses) {
  start_port();
  EXPECT_FALSE(dpdk_port->pause_in_hardware(0b0000'1000));
}

}  // namespace
}  // namespace mqnic::test
