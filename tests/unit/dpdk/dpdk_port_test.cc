// DpdkPort over net_ring, whose rings are the cable: what the port sends lies in one, what is put into the other it
// receives. Time is a number.
#include "dpdk/dpdk_port.h"

#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "dpdk/packet_pool.h"
#include "eal_environment.h"
#include "transport/counters.h"

namespace uroce {
namespace {

constexpr uint32_t kFrameBytes = 2000;
constexpr unsigned kRoom = 15;  // frames that the cable holds

class DpdkPortTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string error;
    PacketPoolShape shape;
    shape.name = "test";
    shape.mbufs = 511;
    shape.frame_bytes = kFrameBytes;
    pool_ = make_packet_pool(shape, error);
    ASSERT_NE(pool_, nullptr) << error;
  }
  static void TearDownTestSuite() { rte_mempool_free(pool_); }

  void SetUp() override {
    const std::string number = std::to_string(serial_++);
    to_port_ = rte_ring_create(("rx" + number).c_str(), kRoom + 1, SOCKET_ID_ANY, 0);
    from_port_ = rte_ring_create(("tx" + number).c_str(), kRoom + 1, SOCKET_ID_ANY, 0);
    const int id = rte_eth_from_rings(("net_ring_test" + number).c_str(), &to_port_, 1, &from_port_, 1, 0);
    ASSERT_GE(id, 0);
    DpdkPortOptions options;
    options.port_id = static_cast<uint16_t>(id);
    options.frame_bytes = kFrameBytes;
    options.pool = pool_;
    options.unplug = false;
    std::string error;
    free_before_ = rte_mempool_avail_count(pool_);
    port_ = DpdkPort::start(options, error);
    ASSERT_NE(port_, nullptr) << error;
  }
  /// Nothing of a test is left: every buffer is back in the pool.
  void TearDown() override {
    drain();
    port_.reset();
    EXPECT_EQ(rte_mempool_avail_count(pool_), free_before_);
    rte_ring_free(to_port_);
    rte_ring_free(from_port_);
  }

  /// Sends frames that begin with their number. Returns how many buffers the port gave.
  uint32_t send(uint32_t wanted) {
    TxFrame frames[Port::kMaxBurst];
    const uint32_t count = port_->acquire_tx(frames, wanted);
    for (uint32_t i = 0; i < count; i++) {
      std::memcpy(frames[i].data, &sent_, sizeof sent_);
      sent_++;
      frames[i].bytes = 60;
    }
    port_->send(frames, count);
    return count;
  }
  /// Takes the frames out of the cable, as numbers.
  std::vector<uint32_t> drain() {
    std::vector<uint32_t> numbers;
    void* mbuf = nullptr;
    while (rte_ring_dequeue(from_port_, &mbuf) == 0) {
      numbers.push_back(*rte_pktmbuf_mtod(static_cast<rte_mbuf*>(mbuf), uint32_t*));
      rte_pktmbuf_free(static_cast<rte_mbuf*>(mbuf));
    }
    return numbers;
  }
  void turns(int milliseconds_each, int count) {
    for (int i = 0; i < count; i++) port_->on_turn(now_ = now_ + milliseconds(milliseconds_each));
  }

  /// A frame whose bytes count up, in segments of these sizes.
  void put_in(const std::vector<uint32_t>& pieces) {
    rte_mbuf* head = nullptr;
    uint8_t next = 0;
    for (const uint32_t bytes : pieces) {
      rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool_);
      ASSERT_NE(mbuf, nullptr);
      mbuf->data_len = static_cast<uint16_t>(bytes);
      mbuf->pkt_len = bytes;
      for (uint32_t i = 0; i < bytes; i++) rte_pktmbuf_mtod(mbuf, uint8_t*)[i] = next++;
      if (head == nullptr) {
        head = mbuf;
      } else {
        ASSERT_EQ(rte_pktmbuf_chain(head, mbuf), 0);
      }
    }
    ASSERT_EQ(rte_ring_enqueue(to_port_, head), 0);
  }
  static bool counts_up(const RxFrame& frame) {
    for (uint32_t i = 0; i < frame.bytes; i++) {
      if (frame.data[i] != static_cast<uint8_t>(i)) return false;
    }
    return true;
  }

  static inline rte_mempool* pool_ = nullptr;
  static inline int serial_ = 0;
  rte_ring* to_port_ = nullptr;
  rte_ring* from_port_ = nullptr;
  unsigned free_before_ = 0;
  std::unique_ptr<DpdkPort> port_;
  Instant now_{0};
  uint32_t sent_ = 0;
};

TEST_F(DpdkPortTest, WhatTheDriverDoesNotTakeAtOnceWaitsInOrder) {
  ASSERT_EQ(send(40), 40u);
  EXPECT_TRUE(port_->tx_pending());
  EXPECT_EQ(send(1), 0u) << "nobody overtakes what waits";
  std::vector<uint32_t> arrived;
  for (int i = 0; i < 4; i++) {
    const auto some = drain();
    arrived.insert(arrived.end(), some.begin(), some.end());
    turns(1, 1);
  }
  std::vector<uint32_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(arrived, all);
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 0u);
}

TEST_F(DpdkPortTest, APortThatStaysStuckLosesFramesInsteadOfHoldingEverythingUp) {
  ASSERT_EQ(send(20), 20u);
  turns(10, 95);
  EXPECT_TRUE(port_->tx_pending()) << "patient for a second";
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 0u);
  testing::internal::CaptureStderr();
  turns(10, 10);
  EXPECT_FALSE(port_->tx_pending());
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 20u - kRoom);
  // From now on frames that the port does not take are lost at once, and the sender goes on.
  for (unsigned i = 1; i <= 10; i++) {
    EXPECT_EQ(send(10), 10u);
    EXPECT_EQ(port_->counters().tx_dropped_stuck, 20u - kRoom + 10 * i);
  }
  turns(10, 300);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "uroce: port: has taken no frame for a second; what it does not take at once is lost\n")
      << "said once";
  EXPECT_EQ(port_->counters().tx_dropped_no_link, 0u);
}

TEST_F(DpdkPortTest, APortThatTakesFramesAgainIsStuckNoMore) {
  send(20);
  turns(10, 105);
  ASSERT_EQ(port_->counters().tx_dropped_stuck, 20u - kRoom);
  EXPECT_EQ(drain().size(), kRoom);
  ASSERT_EQ(send(20), 20u);
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 20u - kRoom) << "what it does not take waits again";
  EXPECT_TRUE(port_->tx_pending());
  EXPECT_EQ(drain().size(), kRoom);
  turns(10, 1);
  EXPECT_EQ(drain(), (std::vector<uint32_t>{35, 36, 37, 38, 39}));
}

TEST_F(DpdkPortTest, APortThatIsSlowIsNotStuck) {
  for (int i = 0; i < 300; i++) {
    send(20);
    turns(10, 1);
    void* mbuf = nullptr;  // one frame every ten milliseconds
    ASSERT_EQ(rte_ring_dequeue(from_port_, &mbuf), 0);
    rte_pktmbuf_free(static_cast<rte_mbuf*>(mbuf));
  }
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 0u);
}

TEST_F(DpdkPortTest, TheLinkIsLookedAtNowAndThen) {
  now_ = now_ + milliseconds(1000);
  EXPECT_TRUE(port_->on_turn(now_));
  EXPECT_FALSE(port_->on_turn(now_));
  int looks = 0;
  for (int i = 0; i < 10'000; i++) looks += port_->on_turn(now_ = now_ + microseconds(100)) ? 1 : 0;
  EXPECT_GE(looks, 5) << "of a second";
  EXPECT_LE(looks, 50);
}

TEST_F(DpdkPortTest, AFrameInPiecesArrivesAsOne) {
  put_in({100});
  put_in({14, 20, 8, 58});
  put_in({60});
  put_in({1000, 1000});
  RxFrame frames[8];
  ASSERT_EQ(port_->receive(frames, 8), 4u);
  const uint32_t bytes[] = {100, 100, 60, 2000};
  for (unsigned i = 0; i < 4; i++) {
    EXPECT_EQ(frames[i].bytes, bytes[i]) << i;
    EXPECT_TRUE(counts_up(frames[i])) << i;
  }
  EXPECT_EQ(port_->counters().rx_linearized, 2u);
  port_->release_rx(frames, 4);
}

TEST_F(DpdkPortTest, AFrameInPiecesThatIsTooLongIsCut) {
  put_in({1500, 1500});
  put_in({1, 1});
  RxFrame frames[8];
  ASSERT_EQ(port_->receive(frames, 8), 2u);
  EXPECT_EQ(frames[0].bytes, kFrameBytes) << "which the engine finds to be less than its headers say";
  EXPECT_TRUE(counts_up(frames[0]));
  EXPECT_EQ(frames[1].bytes, 2u);
  EXPECT_TRUE(counts_up(frames[1]));
  port_->release_rx(frames, 2);
}

TEST_F(DpdkPortTest, ABurstOfFramesInPiecesKeepsThemApart) {
  for (uint32_t i = 0; i < kRoom; i++) put_in({10 + i, 10});
  RxFrame frames[Port::kMaxBurst];
  ASSERT_EQ(port_->receive(frames, Port::kMaxBurst), kRoom);
  for (uint32_t i = 0; i < kRoom; i++) {
    EXPECT_EQ(frames[i].bytes, 20 + i);
    EXPECT_TRUE(counts_up(frames[i])) << i;
  }
  EXPECT_EQ(port_->counters().rx_linearized, kRoom);
  port_->release_rx(frames, kRoom);
}

TEST_F(DpdkPortTest, WholeBuffersArePassedOnInOrder) {
  rte_mbuf* mbufs[Port::kMaxBurst];
  put_in({60});
  put_in({60, 40});
  ASSERT_EQ(port_->receive_mbufs(mbufs, Port::kMaxBurst), 2u);
  EXPECT_EQ(mbufs[1]->pkt_len, 100u) << "as it came, in pieces";
  rte_pktmbuf_free_bulk(mbufs, 2);

  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool_, mbufs, 20), 0);
  for (uint32_t i = 0; i < 20; i++) std::memcpy(rte_pktmbuf_append(mbufs[i], 60), &i, sizeof i);
  ASSERT_TRUE(port_->ready_to_send());
  port_->send_mbufs(mbufs, 20);
  EXPECT_FALSE(port_->ready_to_send()) << "what the cable has no room for waits";
  std::vector<uint32_t> arrived = drain();
  EXPECT_EQ(arrived.size(), kRoom);
  EXPECT_TRUE(port_->ready_to_send());
  port_->send_mbufs(mbufs, 0);
  for (const uint32_t number : drain()) arrived.push_back(number);
  std::vector<uint32_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(arrived, all);
}

/// Buffers lent and not used, some of which claim too many bytes; that none is lost is checked in the end.
TEST_F(DpdkPortTest, EmptyFramesAreNotSentAndTheirBuffersComeBack) {
  for (int time = 0; time < 3; time++) {
    TxFrame frames[Port::kMaxBurst];
    ASSERT_EQ(port_->acquire_tx(frames, 5), 5u);
    for (uint32_t i = 0; i < 5; i++) {
      std::memcpy(frames[i].data, &i, sizeof i);
      frames[i].bytes = i % 2 == 0 ? 0 : 60;
    }
    port_->send(frames, 5);
    EXPECT_EQ(drain(), (std::vector<uint32_t>{1, 3}));
  }
}

/// Frames that wait, or are ready, when a port is closed; that none is lost is checked in the end.
TEST_F(DpdkPortTest, IsClosedWhileFramesWait) {
  ASSERT_EQ(send(kRoom + 5), kRoom + 5);
  EXPECT_TRUE(port_->tx_pending());
  port_.reset();
  EXPECT_EQ(drain().size(), kRoom);
}

TEST_F(DpdkPortTest, APoolHasAllItsBuffersAndEachItsOwnMemory) {
  PacketPoolShape shape;
  shape.name = "counted";
  shape.mbufs = 127;
  shape.frame_bytes = kFrameBytes;
  std::string error;
  rte_mempool* const pool = make_packet_pool(shape, error);
  ASSERT_NE(pool, nullptr) << error;
  EXPECT_EQ(rte_mempool_avail_count(pool), 127u);
  std::vector<rte_mbuf*> mbufs(127);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool, mbufs.data(), 127), 0);
  EXPECT_EQ(rte_pktmbuf_alloc(pool), nullptr);
  std::sort(mbufs.begin(), mbufs.end());
  const uint8_t* free_from = nullptr;
  for (const rte_mbuf* mbuf : mbufs) {
    EXPECT_GE(rte_pktmbuf_tailroom(mbuf), kFrameBytes);
    EXPECT_LE(free_from, reinterpret_cast<const uint8_t*>(mbuf)) << "the one before reaches into it";
    free_from = static_cast<const uint8_t*>(mbuf->buf_addr) + mbuf->buf_len;
  }
  rte_pktmbuf_free_bulk(mbufs.data(), 127);
  rte_mempool_free(pool);
}

}  // namespace
}  // namespace uroce
