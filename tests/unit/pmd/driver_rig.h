// An ethdev of the driver over a card model that the test controls, and a check that no mbuf is lost.
#pragma once

#include <gtest/gtest.h>
#include <rte_bus_vdev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <functional>
#include <string>
#include <vector>

#include "pmd/ethdev/card_kinds.h"
#include "tests/unit/pmd/model_bus.h"

namespace mqnic::test {

struct PortSetup {
  uint16_t rx_queues = 1, tx_queues = 1;
  uint16_t descriptors = 128;
  uint64_t rx_offloads = 0, tx_offloads = 0;
  uint64_t rss_types = 0;
  uint16_t mtu = 1500;
  bool rx_interrupts = false;
  rte_mempool* rx_pool = nullptr;  // the rig's own when nullptr
};

class DriverRig : public ::testing::Test {
 protected:
  static constexpr uint16_t kRoom = 2048;

  void SetUp() override;
  /// Closes what a test left open, and counts the mbufs.
  void TearDown() override;

  /// Makes net_mqnic_test with the model behind it. Returns 0 or the error of its probe.
  int attach(const card::CardConfig& config = {}, const std::string& arguments = "");
  int attach_bus(std::unique_ptr<Bus> made, const std::string& arguments = "");
  void detach();

  int configure(const PortSetup& setup = {});
  int start(const PortSetup& setup = {}) {
    const int rc = configure(setup);
    return rc != 0 ? rc : rte_eth_dev_start(port);
  }
  void attach_and_start(const PortSetup& setup = {}, const card::CardConfig& config = {}) {
    ASSERT_EQ(attach(config), 0);
    ASSERT_EQ(start(setup), 0);
  }

  rte_mbuf* make_mbuf(const Bytes& bytes, rte_mempool* from = nullptr);
  /// The same in segments of these sizes.
  rte_mbuf* make_chain(const Bytes& bytes, const std::vector<uint16_t>& pieces);
  uint16_t send(rte_mbuf* m, uint16_t queue = 0) { return rte_eth_tx_burst(port, queue, &m, 1); }
  uint16_t send(const Bytes& bytes, uint16_t queue = 0);
  /// Polls until `count` frames have come or no more come. Frees them.
  std::vector<Bytes> receive(size_t count, uint16_t queue = 0);
  /// One frame, which the caller frees; nullptr when none has come.
  rte_mbuf* receive_mbuf(uint16_t queue = 0);
  uint64_t xstat(const std::string& name);
  rte_eth_stats stats();
  static Bytes bytes_of(const rte_mbuf* m);

  ModelBus* bus = nullptr;  // lives as long as the ethdev
  uint16_t port = RTE_MAX_ETHPORTS;
  rte_mempool* pool = nullptr;     // of received frames
  rte_mempool* tx_pool = nullptr;  // of frames that tests send
  unsigned held_by_card = 0;       // of these, those that the driver may not free, because the card still reads them
};

/// A frame of `bytes` bytes, not IP; its content depends on `seed`.
Bytes make_frame(size_t bytes, unsigned seed = 0);
/// UDP over IPv4 with right checksums, computed byte by byte.
Bytes make_udp(size_t payload_bytes, uint32_t source = 0x0a000001, uint16_t source_port = 1000);

}  // namespace mqnic::test
