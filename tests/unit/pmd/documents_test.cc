// What the documents say of the driver: DPDK's feature table, the guide page, the extended statistics.
#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

#include "pmd/ethdev/arguments.h"
#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/ethdev/queues.h"
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

using ::testing::HasSubstr;

std::string document(const std::string& name) {
  std::ifstream file(std::string(DOC_FOLDER "/") + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

class Documents : public DriverRig {
 protected:
  struct Feature {
    const char* name;
    bool told;
  };

  // The rows of DPDK's table (features/default.ini), and what shows that a driver has each.
  static std::vector<Feature> of_capabilities(const rte_eth_dev_info& info);
  std::vector<Feature> of_operations(const rte_eth_dev_info& info);
};

std::vector<Documents::Feature> Documents::of_capabilities(const rte_eth_dev_info& info) {
  const auto rx = [&](uint64_t offload) { return (info.rx_offload_capa & offload) != 0; };
  const auto tx = [&](uint64_t offload) { return (info.tx_offload_capa & offload) != 0; };
  return {
      {"Speed capabilities", info.speed_capa != 0},
      {"Lock-free Tx queue", tx(RTE_ETH_TX_OFFLOAD_MT_LOCKFREE)},
      {"Fast mbuf free", tx(RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE)},
      {"Runtime Rx queue setup", (info.dev_capa & RTE_ETH_DEV_CAPA_RUNTIME_RX_QUEUE_SETUP) != 0},
      {"Runtime Tx queue setup", (info.dev_capa & RTE_ETH_DEV_CAPA_RUNTIME_TX_QUEUE_SETUP) != 0},
      {"Shared Rx queue", (info.dev_capa & RTE_ETH_DEV_CAPA_RXQ_SHARE) != 0},
      {"Buffer split on Rx", rx(RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT)},
      {"Scattered Rx", rx(RTE_ETH_RX_OFFLOAD_SCATTER)},
      {"LRO", rx(RTE_ETH_RX_OFFLOAD_TCP_LRO)},
      {"TSO", tx(RTE_ETH_TX_OFFLOAD_TCP_TSO)},
      {"RSS hash", info.flow_type_rss_offloads != 0},
      {"CRC offload", rx(RTE_ETH_RX_OFFLOAD_KEEP_CRC)},
      {"VLAN offload", rx(RTE_ETH_RX_OFFLOAD_VLAN_STRIP) || tx(RTE_ETH_TX_OFFLOAD_VLAN_INSERT)},
      {"QinQ offload", rx(RTE_ETH_RX_OFFLOAD_QINQ_STRIP) || tx(RTE_ETH_TX_OFFLOAD_QINQ_INSERT)},
      {"L3 checksum offload", rx(RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) && tx(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM)},
      {"L4 checksum offload", rx(RTE_ETH_RX_OFFLOAD_UDP_CKSUM) && tx(RTE_ETH_TX_OFFLOAD_TCP_CKSUM)},
      {"Timestamp offload", rx(RTE_ETH_RX_OFFLOAD_TIMESTAMP)},
  };
}

std::vector<Documents::Feature> Documents::of_operations(const rte_eth_dev_info& info) {
  const rte_eth_dev& dev = rte_eth_devices[port];
  const eth_dev_ops& ops = *dev.dev_ops;
  uint8_t key[40] = {1, 2, 3};
  rte_eth_rss_conf other_key{key, sizeof(key), info.flow_type_rss_offloads};
  return {
      {"Link status", ops.link_update != nullptr},
      {"Link status event", (dev.data->dev_flags & RTE_ETH_DEV_INTR_LSC) != 0},
      {"Removal event", (dev.data->dev_flags & RTE_ETH_DEV_INTR_RMV) != 0},
      {"Rx interrupt", ops.rx_queue_intr_enable != nullptr},
      {"Free Tx mbuf on demand", ops.tx_done_cleanup != nullptr},
      {"Queue start/stop", ops.rx_queue_start != nullptr && ops.tx_queue_stop != nullptr},
      {"Burst mode info", ops.rx_burst_mode_get != nullptr},
      {"Power mgmt address monitor", ops.get_monitor_addr != nullptr},
      {"MTU update", ops.mtu_set != nullptr},
      {"Promiscuous mode", ops.promiscuous_enable != nullptr},
      {"Allmulticast mode", ops.allmulticast_enable != nullptr},
      {"Unicast MAC filter", ops.mac_addr_add != nullptr},
      {"Multicast MAC filter", false},  // a list is accepted without effect: all frames are received
      {"RSS key update", rte_eth_dev_rss_hash_update(port, &other_key) == 0},
      {"RSS reta update", info.reta_size != 0 && ops.reta_update != nullptr},
      {"VLAN filter", ops.vlan_filter_set != nullptr},
      {"Flow control", ops.flow_ctrl_set != nullptr},
      {"Rate limitation", ops.set_queue_rate_limit != nullptr},
      {"FEC", ops.fec_get != nullptr},
      {"Packet type parsing", ops.dev_supported_ptypes_get != nullptr},
      {"Timesync", ops.timesync_enable != nullptr},
      {"Rx descriptor status", dev.rx_descriptor_status != nullptr},
      {"Tx descriptor status", dev.tx_descriptor_status != nullptr},
      {"Basic stats", ops.stats_get != nullptr},
      {"Extended stats", ops.xstats_get != nullptr},
      {"Stats per queue", rte_eth_xstats_get_names(port, nullptr, 0) > 100},  // of 20 queues
      {"FW version", ops.fw_version_get != nullptr},
      {"EEPROM dump", ops.get_eeprom != nullptr},
      {"Module EEPROM dump", ops.get_module_eeprom != nullptr},
      {"Registers dump", ops.get_reg != nullptr},
      {"LED", ops.dev_led_on != nullptr},
      {"Multiprocess aware", false},  // Secondary.ProcessesAreRefused
      {"Linux", true},
      {"x86-64", true},
      {"Usage doc", !document("mqnic.rst").empty()},
  };
}

TEST_F(Documents, TheFeatureTableIsWhatTheDriverTells) {
  attach_and_start({.rx_queues = 10, .tx_queues = 10});
  std::set<std::string> written;
  std::istringstream lines(document("mqnic.ini"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == ';' || line[0] == '[') continue;
    const size_t equals = line.find('=');
    ASSERT_NE(equals, std::string::npos) << line;
    EXPECT_EQ(line.substr(equals), "= Y") << line;
    EXPECT_TRUE(written.insert(line.substr(0, line.find_last_not_of(' ', equals - 1) + 1)).second) << line;
  }
  rte_eth_dev_info info{};
  ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
  std::vector<Feature> features = of_operations(info);
  for (const Feature& feature : of_capabilities(info)) features.push_back(feature);
  for (const Feature& feature : features) {
    EXPECT_EQ(written.erase(feature.name), feature.told ? 1u : 0u) << feature.name;
  }
  EXPECT_THAT(written, ::testing::IsEmpty()) << "DPDK's table does not have these";
}

/// The word before each "=" of a list of arguments.
std::vector<std::string> keys_of(const std::string& list) {
  std::vector<std::string> keys;
  std::istringstream words(list);
  for (std::string word; words >> word;) keys.push_back(word.substr(0, word.find('=')));
  return keys;
}

TEST_F(Documents, EveryArgumentIsExplained) {
  const std::string guide = document("mqnic.rst"), ours = document("net_mqnic.md");
  for (const char* list : {MQNIC_ARGUMENTS, MQNIC_PCI_ARGUMENTS}) {
    for (const std::string& key : keys_of(list)) {
      EXPECT_THAT(guide, HasSubstr("``" + key + "``"));
      EXPECT_THAT(ours, HasSubstr(key + "="));
    }
  }
}

TEST_F(Documents, EveryStatisticIsExplained) {
  const std::string ours = document("net_mqnic.md");
  for (const char* name : ethdev::kRxCounterNames) {
    if (!std::string(name).ends_with("_packets") && !std::string(name).ends_with("_bytes")) {
      EXPECT_THAT(ours, HasSubstr("`" + std::string(name) + "`"));
    }
  }
  for (const char* name : ethdev::kTxCounterNames) {
    if (!std::string(name).ends_with("_packets") && !std::string(name).ends_with("_bytes")) {
      EXPECT_THAT(ours, HasSubstr("`" + std::string(name) + "`"));
    }
  }
}

TEST_F(Documents, ACardOnPciHasOneArgument) {
  std::optional<rte_ether_addr> mac;
  EXPECT_FALSE(ethdev::parse_pci_arguments("0000:03:00.0", nullptr, mac));
  EXPECT_FALSE(mac.has_value());
  EXPECT_FALSE(ethdev::parse_pci_arguments("0000:03:00.0", "mac=02:00:00:00:00:07", mac));
  ASSERT_TRUE(mac.has_value());
  EXPECT_EQ(mac->addr_bytes[5], 7);
  for (const char* bad : {"mac=01:00:00:00:00:07", "wire=loop", "mac", "ports=2", "card=inline", "nonsense=1"}) {
    const Failure failure = ethdev::parse_pci_arguments("0000:03:00.0", bad, mac);
    EXPECT_EQ(failure.code, -EINVAL) << bad;
    EXPECT_THAT(failure.message, HasSubstr("0000:03:00.0: "));
  }
}

}  // namespace
}  // namespace mqnic::test
