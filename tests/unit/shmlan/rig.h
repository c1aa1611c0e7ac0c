// A port of net_shmlan in a test, as an application has it.
#pragma once

#include <gtest/gtest.h>
#include <rte_bus_vdev.h>
#include <rte_ethdev.h>

#include <cstring>
#include <string>
#include <vector>

#include "node.h"

namespace uroce::shmlan::test {

using segment::test::Frames;
using Bytes = std::vector<uint8_t>;

inline constexpr uint16_t kRoom = 2048;  // bytes of an mbuf

struct PortSetup {
  uint16_t mtu = 1500;
  uint64_t rx_offloads = 0;
  bool interrupts = false;
  rte_mempool* pool = nullptr;
};

/// An ethdev that exists as long as the object.
class TestPort {
 public:
  /// `arguments` without the directory. Ask `there` whether it was made.
  TestPort(const std::string& name, const std::string& dir, const std::string& arguments = "") : name_(name) {
    const std::string all = "dir=" + dir + (arguments.empty() ? "" : "," + arguments);
    code = rte_vdev_init(name.c_str(), all.c_str());
    if (code == 0) {
      EXPECT_EQ(rte_eth_dev_get_port_by_name(name.c_str(), &id), 0);
    }
  }
  ~TestPort() { close(); }
  TestPort(const TestPort&) = delete;
  TestPort& operator=(const TestPort&) = delete;

  void close() {
    if (code != 0) return;
    code = -1;
    EXPECT_EQ(rte_vdev_uninit(name_.c_str()), 0);
  }
  int start(const PortSetup& setup) {
    rte_eth_conf conf{};
    conf.rxmode.mtu = setup.mtu;
    conf.rxmode.offloads = setup.rx_offloads;
    conf.intr_conf.rxq = setup.interrupts ? 1 : 0;
    int rc = rte_eth_dev_configure(id, 1, 1, &conf);
    if (rc == 0) rc = rte_eth_rx_queue_setup(id, 0, 256, 0, nullptr, setup.pool);
    if (rc == 0) rc = rte_eth_tx_queue_setup(id, 0, 256, 0, nullptr);
    return rc == 0 ? rte_eth_dev_start(id) : rc;
  }
  MacAddress mac() const {
    rte_ether_addr address{};
    EXPECT_EQ(rte_eth_macaddr_get(id, &address), 0);
    MacAddress mac;
    std::memcpy(mac.bytes.data(), address.addr_bytes, 6);
    return mac;
  }
  uint16_t send(rte_mbuf* mbuf) const { return rte_eth_tx_burst(id, 0, &mbuf, 1); }
  /// One burst of up to `max`.
  std::vector<rte_mbuf*> receive_mbufs(uint16_t max = 64) const {
    std::vector<rte_mbuf*> mbufs(max);
    mbufs.resize(rte_eth_rx_burst(id, 0, mbufs.data(), max));
    return mbufs;
  }
  Frames receive(uint16_t max = 64) const {
    Frames frames;
    for (rte_mbuf* mbuf : receive_mbufs(max)) {
      Bytes copy(mbuf->pkt_len);
      std::memcpy(copy.data(), rte_pktmbuf_read(mbuf, 0, mbuf->pkt_len, copy.data()), copy.size());
      frames.push_back(copy);
      rte_pktmbuf_free(mbuf);
    }
    return frames;
  }
  rte_eth_stats stats() const {
    rte_eth_stats stats{};
    EXPECT_EQ(rte_eth_stats_get(id, &stats), 0);
    return stats;
  }
  uint64_t xstat(const char* name) const {
    uint64_t number = 0, value = UINT64_MAX;
    EXPECT_EQ(rte_eth_xstats_get_id_by_name(id, name, &number), 0) << name;
    EXPECT_EQ(rte_eth_xstats_get_by_id(id, &number, &value, 1), 1) << name;
    return value;
  }

  uint16_t id = RTE_MAX_ETHPORTS;
  int code = 0;  // of its probe

 private:
  const std::string name_;
};

class ShmlanTest : public testing::Test {
 protected:
  void SetUp() override {
    pool = rte_pktmbuf_pool_create("shmlan", 1023, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
    ASSERT_NE(pool, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u) << "mbufs that did not come back";
    rte_mempool_free(pool);
  }
  PortSetup setup() const {
    PortSetup made;
    made.pool = pool;
    return made;
  }
  std::string segment_dir() const { return dir.path() + "/shmlan"; }
  /// Splits the frame into mbufs of up to `piece` bytes.
  rte_mbuf* mbuf_of(const Bytes& bytes, size_t piece = kRoom) const {
    rte_mbuf* head = nullptr;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      const size_t part = std::min(piece, bytes.size() - at);
      rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool);
      std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(part)), &bytes[at], part);
      if (head == nullptr) {
        head = mbuf;
      } else {
        EXPECT_EQ(rte_pktmbuf_chain(head, mbuf), 0);
      }
    }
    return head;
  }

  segment::test::TempDir dir;
  rte_mempool* pool = nullptr;
};

/// A port, and a program on its segment.
class ShmlanDriver : public ShmlanTest {
 protected:
  void SetUp() override {
    ShmlanTest::SetUp();
    port = std::make_unique<TestPort>("net_shmlan0", dir.path(), "mac=02:75:00:00:00:02");
    ASSERT_EQ(port->code, 0);
    peer = std::make_unique<segment::test::Node>(segment_dir(), segment::test::record_of("host", 1));
    qpn = peer->qpn();
    peer->turn();
  }
  void TearDown() override {
    port.reset();
    peer.reset();
    ShmlanTest::TearDown();
  }
  void start() { start(setup()); }
  void start(const PortSetup& with) {
    ASSERT_EQ(port->start(with), 0);
    // Makes contact.
    send(to_peer(60));
    peer->send(to_port(60));
    settle();
    ASSERT_EQ(peer->receive().size(), 1u);
    ASSERT_EQ(port->receive().size(), 1u);
    ASSERT_EQ(rte_eth_stats_reset(port->id), 0);
  }
  void settle() {
    for (int i = 0; i < 4; i++) {
      peer->turn();
      usleep(100);  // longer than a member waits before it looks for letters again
      rte_mbuf* none = nullptr;
      EXPECT_EQ(rte_eth_tx_burst(port->id, 0, &none, 0), 0);
    }
  }
  void send(const Bytes& bytes, size_t piece = kRoom) { ASSERT_EQ(port->send(mbuf_of(bytes, piece)), 1); }
  Bytes to_peer(size_t bytes, uint8_t seed = 0) const {
    return segment::test::roce_frame(segment::test::mac_of(1), qpn, bytes, seed);
  }
  Bytes to_port(size_t bytes, uint8_t seed = 0) const {
    return segment::test::roce_frame(segment::test::mac_of(2), 0x123456, bytes, seed);
  }

  std::unique_ptr<TestPort> port;
  std::unique_ptr<segment::test::Node> peer;
  uint32_t qpn = 0;
};

}  // namespace uroce::shmlan::test
