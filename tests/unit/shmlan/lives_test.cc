// A port that is started, stopped, set up anew and closed many times: each life gives back what it took, at its end and
// not only with the process.
#include <malloc.h>

#include <filesystem>
#include <memory>

#include "rig.h"

namespace uroce::shmlan {
namespace {

using namespace test;
using segment::test::mac_of;
using segment::test::Node;
using segment::test::record_of;
using segment::test::roce_frame;

class ShmlanLives : public ShmlanTest {
 protected:
  void open() {
    port = std::make_unique<TestPort>("net_shmlan0", dir.path(), "mac=02:75:00:00:00:02");
    ASSERT_EQ(port->code, 0);
  }
  void start(bool interrupts) {
    PortSetup with = setup();
    with.interrupts = interrupts;
    ASSERT_EQ(port->start(with), 0);
  }
  void stop() { ASSERT_EQ(rte_eth_dev_stop(port->id), 0); }
  Bytes to_port() const { return roce_frame(mac_of(2), 0x123456, 300); }
  /// Receives a frame from the peer, which makes contact first.
  void receive_one(Node& peer) {
    for (int i = 0; i < 8; i++) {
      if (i == 0) peer.send(to_port());
      peer.turn();
      usleep(100);
      if (!port->receive().empty()) return;
    }
    FAIL() << "nothing came";
  }

  std::unique_ptr<TestPort> port;
};

TEST_F(ShmlanLives, AStoppedPortHasNoMbufs) {
  open();
  Node peer(segment_dir(), record_of("host", 1));
  for (int life = 0; life < 3; life++) {
    start(false);
    receive_one(peer);
    EXPECT_NE(rte_mempool_in_use_count(pool), 0u) << "some are ready for the next frames";
    stop();
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u) << life;
  }
  port.reset();
}

TEST_F(ShmlanLives, AStoppedPortIsNotWoken) {
  open();
  Node peer(segment_dir(), record_of("host", 1));
  for (int life = 0; life < 3; life++) {
    start(true);
    receive_one(peer);
    ASSERT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
    const uint64_t before = peer.port->counters().wakes_sent;
    stop();
    ASSERT_TRUE(peer.send(to_port()));
    peer.turn();
    EXPECT_EQ(peer.port->counters().wakes_sent, before) << life;
  }
  port.reset();
}

TEST_F(ShmlanLives, WithoutItsInterruptNobodySleeps) {
  open();
  start(true);
  EXPECT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), 0);
  stop();
  start(false);
  EXPECT_EQ(rte_eth_dev_rx_intr_enable(port->id, 0), -ENOTSUP) << "it was not asked for this time";
  port.reset();
}

TEST_F(ShmlanLives, BytesOfAllPiecesCount) {
  open();
  Node peer(segment_dir(), record_of("host", 1));
  start(false);
  const Bytes frame = roce_frame(mac_of(1), peer.qpn(), 700);
  for (const size_t piece : {700u, 300u, 100u}) ASSERT_EQ(port->send(mbuf_of(frame, piece)), 1);
  EXPECT_EQ(port->stats().opackets, 3u);
  EXPECT_EQ(port->stats().obytes, 3 * 700u);
  stop();
  port.reset();
}

TEST_F(ShmlanLives, EachOfItsAddressesIsItsOwn) {
  std::filesystem::create_directory(segment_dir());
  Node peer(segment_dir(), record_of("host", 1));
  for (const char* const addresses :
       {"addr=10.0.0.1/24,addr=10.0.0.8/24,addr=10.0.0.9/24", "addr=10.0.0.8/24,addr=10.0.0.1/24,addr=10.0.0.9/24",
        "addr=10.0.0.8/24,addr=10.0.0.9/24,addr=10.0.0.1/24"}) {
    TestPort other("net_shmlan1", dir.path(), addresses);
    EXPECT_EQ(other.code, -ENODEV) << addresses;
  }
  TestPort good("net_shmlan1", dir.path(), "addr=10.0.0.8/24,addr=10.0.0.9/24");
  EXPECT_EQ(good.code, 0);
}

/// No frame has it.
TEST_F(ShmlanLives, ABridgesMacIsFree) {
  std::filesystem::create_directory(segment_dir());
  Node bridge(segment_dir(), segment::test::with_role(record_of("switch", 2), segment::Role::kBridge));
  open();
  port.reset();
}

TEST_F(ShmlanLives, CostNoMemory) {
  const auto live = [&](int times) {
    for (int life = 0; life < times; life++) {
      open();
      for (int again = 0; again < 3; again++) {
        start(true);
        stop();
      }
      port.reset();
    }
  };
  live(3);
  const size_t before = mallinfo2().uordblks;
  live(20);
  EXPECT_LT(mallinfo2().uordblks, before + 20 * 256) << "a piece of memory for each life";
}

}  // namespace
}  // namespace uroce::shmlan
