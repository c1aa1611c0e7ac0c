// The switch's port on a segment, and another member in the test's own process.
#include "uroce_switch/bridge_port.h"

#include "eal_test.h"
#include "node.h"

namespace uroce::netswitch {
namespace {

using segment::test::Frames;
using segment::test::kFarAway;
using segment::test::mac_of;
using segment::test::Node;
using segment::test::record_of;
using segment::test::roce_frame;
using segment::test::with_role;
using Bytes = std::vector<uint8_t>;

class BridgePortTest : public EalTest {
 protected:
  void SetUp() override {
    EalTest::SetUp();
    std::string error;
    port_ = BridgePort::start(dir_.path(), BridgePort::Of::kAll, "shmlan", pool_, error);
    ASSERT_NE(port_, nullptr) << error;
    program_ = std::make_unique<Node>(dir_, record_of("host", 1));
    qpn_ = program_->qpn();
    settle();
  }
  void TearDown() override {
    port_.reset();
    expect_all_free();
  }
  void settle() {
    for (int i = 0; i < 4; i++) {
      port_->on_turn(now_ = now_ + milliseconds(3));
      program_->turn();
    }
  }
  /// One by one, as the switch sends.
  void send(const Frames& frames) {
    std::vector<rte_mbuf*> mbufs;
    for (const Bytes& bytes : frames) {
      mbufs.push_back(frame(static_cast<uint32_t>(bytes.size())));
      memcpy(rte_pktmbuf_mtod(mbufs.back(), uint8_t*), bytes.data(), bytes.size());
    }
    ASSERT_TRUE(port_->ready_to_send());
    port_->send(mbufs.data(), static_cast<uint32_t>(mbufs.size()));
  }
  Frames receive() {
    rte_mbuf* mbufs[SwitchPort::kMaxBurst];
    Frames got;
    const uint32_t count = port_->receive(mbufs, SwitchPort::kMaxBurst);
    for (uint32_t i = 0; i < count; i++) {
      const auto* const data = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
      EXPECT_EQ(mbufs[i]->nb_segs, 1);
      got.emplace_back(data, data + mbufs[i]->pkt_len);
      rte_pktmbuf_free(mbufs[i]);
    }
    return got;
  }
  uint64_t own(const std::string& wanted) const {
    uint64_t found = UINT64_MAX;
    port_->for_each_own_counter([&](const char* name, uint64_t value) {
      if (name == wanted) found = value;
    });
    return found;
  }
  size_t sent_again() {
    send({to_program(1000)});
    settle();
    return program_->receive().size();
  }
  Bytes to_program(size_t bytes, uint8_t seed = 0) const { return roce_frame(mac_of(1), qpn_, bytes, seed); }

  const segment::test::TempDir dir_;
  std::unique_ptr<BridgePort> port_;
  std::unique_ptr<Node> program_;
  Instant now_{1'000'000'000};
  uint32_t qpn_ = 0;
};

TEST_F(BridgePortTest, FramesOfEveryLengthGoBothWays) {
  EXPECT_TRUE(port_->link_up());
  const Frames out{to_program(60, 1), to_program(128, 2), to_program(129, 3), to_program(4352, 4)};
  send(out);
  settle();
  EXPECT_EQ(program_->receive(), out);
  Frames in;
  for (const size_t bytes : {60u, 128u, 129u, 4352u}) {
    in.push_back(roce_frame(kFarAway, 0x17, bytes, 7));
    program_->send(in.back());
  }
  settle();
  EXPECT_EQ(receive(), in);
  EXPECT_TRUE(receive().empty());
  EXPECT_EQ(own("peers_met"), 1u);
}

TEST_F(BridgePortTest, BeforeTheFirstTurnNothingIsSent) {
  std::string error;
  const auto fresh = BridgePort::start(dir_.path(), BridgePort::Of::kAll, "shmlan", pool_, error);
  ASSERT_NE(fresh, nullptr) << error;
  EXPECT_FALSE(fresh->ready_to_send()) << "waits would be counted from the beginning of time";
  fresh->on_turn(now_);
  EXPECT_TRUE(fresh->ready_to_send());
}

TEST_F(BridgePortTest, WhatIsForNobodyOrTooLongIsCounted) {
  send({roce_frame(kFarAway, 0x17, 100), roce_frame(mac_of(1), qpn_ ^ 0x800000, 100)});
  EXPECT_EQ(own("drop_tx_nobody"), 2u);
  rte_mempool* const small = rte_pktmbuf_pool_create("small", 63, 0, 0, 256 + RTE_PKTMBUF_HEADROOM, 0);
  ASSERT_NE(small, nullptr);
  std::string error;
  port_ = BridgePort::start(dir_.path(), BridgePort::Of::kAll, "shmlan", small, error);
  program_->turn(milliseconds(300));  // when it looks for members
  settle();
  program_->send(roce_frame(kFarAway, 0x17, 257));
  program_->send(roce_frame(kFarAway, 0x17, 256, 1));
  settle();
  EXPECT_EQ(receive(), Frames{roce_frame(kFarAway, 0x17, 256, 1)});
  EXPECT_EQ(own("drop_rx_too_long"), 1u);
  port_.reset();
  EXPECT_EQ(rte_mempool_in_use_count(small), 0u);
  rte_mempool_free(small);
}

TEST_F(BridgePortTest, FramesThatHaveNoBufferWait) {
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_)) all.push_back(mbuf);
  const Bytes bytes = roce_frame(kFarAway, 0x17, 100);
  program_->send(bytes);
  settle();
  EXPECT_TRUE(receive().empty());
  for (rte_mbuf* mbuf : all) rte_pktmbuf_free(mbuf);
  EXPECT_EQ(receive(), Frames{bytes});
}

TEST_F(BridgePortTest, WhatTheSegmentHasNoMemoryForWaitsAndLeavesInOrder) {
  // So many long frames that are not read that little of the pool is left.
  Node other(dir_, record_of("other", 2));
  const uint32_t qpn = other.qpn();
  settle();
  uint64_t sent = 0;
  for (int round = 0; round < 64; round++) {
    Frames burst;
    for (int i = 0; i < 32; i++) burst.push_back(roce_frame(mac_of(i % 2 == 0 ? 1 : 2), i % 2 == 0 ? qpn_ : qpn, 1000));
    if (!port_->ready_to_send()) break;
    send(burst);
    sent += burst.size();
  }
  EXPECT_GT(sent, 500u);
  EXPECT_GT(own("drop_tx_no_room") + (port_->waiting() ? 1 : 0), 0u);
  // Once they are read, all goes on.
  for (int i = 0; i < 200; i++) {
    settle();
    other.turn();
    program_->receive();
    other.receive();
  }
  ASSERT_TRUE(port_->ready_to_send());
  EXPECT_FALSE(port_->waiting());
  const Frames more{to_program(300, 1), to_program(300, 2)};
  send(more);
  EXPECT_EQ(program_->receive(), more);
}

/// A port of the switch's own, which one program plugs into.
class OwnPortTest : public BridgePortTest {
 protected:
  void SetUp() override {
    EalTest::SetUp();
    std::string error;
    port_ = BridgePort::start(dir_.path(), BridgePort::Of::kOwn, "program 0", pool_, error);
    ASSERT_NE(port_, nullptr) << error;
    port_->on_turn(now_);
  }
  void plug_in() {
    program_ = std::make_unique<Node>(dir_, with_role(record_of("port0", 1), segment::Role::kBridge));
    settle();
    settle();
  }
  /// Sends bursts as long as the port takes them; the length of each frame tells its place.
  uint32_t send_until_full() {
    uint32_t sent = 0;
    while (port_->ready_to_send() && sent < 10'000) {
      Frames burst;
      for (int i = 0; i < 8; i++) burst.push_back(roce_frame(mac_of(1), 0x17, 1000 + sent++ % 256));
      send(burst);
    }
    return sent;
  }
  static size_t place_of(const Bytes& bytes) { return bytes.size() - 1000; }
};

TEST_F(OwnPortTest, ItsLinkIsUpWhileSomebodyIsPluggedIn) {
  EXPECT_FALSE(port_->link_up());
  send({roce_frame(mac_of(1), 0x17, 100)});
  EXPECT_EQ(own("drop_tx_nobody"), 1u);
  plug_in();
  EXPECT_TRUE(port_->link_up()) << "also before it has said anything";
  EXPECT_EQ(port_->counters().link_ups, 1u);
  program_.reset();
  port_->on_turn(now_ = now_ + milliseconds(20));
  EXPECT_FALSE(port_->link_up());
  plug_in();
  send({to_program(100)});
  settle();
  EXPECT_EQ(program_->receive().size(), 1u);
  program_.reset();
  for (int i = 0; i < 100; i++) port_->on_turn(now_ = now_ + milliseconds(10));
  EXPECT_FALSE(port_->link_up()) << "the same of one with which there was contact";
}

/// Neither end looks at addresses: all that one sends arrives at the other, pauses and ARP included.
TEST_F(OwnPortTest, WhateverIsSentArrives) {
  plug_in();
  Bytes question(60);
  Bytes pause(60);
  const Bytes head{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x75, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0,  6, 4, 0,
                   1,    0x02, 0x75, 0,    0,    0,    9,    10,   0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1};
  std::copy(head.begin(), head.end(), question.begin());
  const Bytes control{0x01, 0x80, 0xc2, 0, 0, 1, 0x02, 0x75, 0, 0, 0, 9, 0x88, 8, 1, 1};
  std::copy(control.begin(), control.end(), pause.begin());
  const Frames all{question,
                   pause,
                   roce_frame(mac_of(1), 0x17, 100),
                   roce_frame(kFarAway, 0x17, 4352),
                   roce_frame(mac_of(1), 1, 300),
                   roce_frame(MacAddress{{0x01, 0, 0x5e, 1, 1, 1}}, 0xffffff, 300),
                   Bytes(60, 0x22)};
  send(all);
  settle();
  EXPECT_EQ(program_->receive(), all);
  for (const Bytes& bytes : all) EXPECT_TRUE(program_->send(bytes));
  settle();
  EXPECT_EQ(receive(), all);
  EXPECT_TRUE(program_->warnings.empty());
}

TEST_F(OwnPortTest, WhatTheProgramHasNoRoomForWaitsInOrder) {
  plug_in();
  const uint32_t sent = send_until_full();
  EXPECT_GT(sent, 128u);
  EXPECT_LT(sent, 512u);
  size_t got = 0;
  for (int i = 0; i < 100; i++) {
    for (const Bytes& bytes : program_->receive()) EXPECT_EQ(place_of(bytes), got++ % 256);
    settle();
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(own("drop_tx_no_room"), 0u);
  EXPECT_TRUE(port_->ready_to_send());
}

TEST_F(OwnPortTest, AProgramThatTakesNothingLosesFramesAfterASecond) {
  plug_in();
  const uint32_t sent = send_until_full();
  for (int i = 0; i < 90; i++) port_->on_turn(now_ = now_ + milliseconds(10));
  EXPECT_FALSE(port_->ready_to_send());
  EXPECT_EQ(port_->counters().tx_dropped_stuck, 0u);
  for (int i = 0; i < 60; i++) port_->on_turn(now_ = now_ + milliseconds(10));
  ASSERT_TRUE(port_->ready_to_send());
  send({to_program(1000)});
  port_->on_turn(now_);
  EXPECT_GT(port_->counters().tx_dropped_stuck, 0u) << "and from then on at once";
  EXPECT_TRUE(port_->link_up());
  size_t got = 0;
  for (int i = 0; i < 100; i++) {
    got += program_->receive().size();
    settle();
  }
  EXPECT_LE(got, sent);
  EXPECT_GE(sent_again(), 1u) << "until it takes some again";
}

/// A port that is closed while frames wait for room loses no buffer.
TEST_F(BridgePortTest, WhatWaitsGoesWithThePort) {
  std::vector<std::unique_ptr<Node>> sleepers;  // none of them reads
  for (uint8_t i = 2; i < 40 && port_->ready_to_send(); i++) {
    sleepers.push_back(std::make_unique<Node>(dir_, record_of("sleeper", i)));
    const uint32_t qpn = sleepers.back()->qpn();
    settle();
    for (int turn = 0; turn < 3; turn++) sleepers.back()->turn();
    settle();
    const Frames burst(32, roce_frame(mac_of(i), qpn, 1000));
    for (int round = 0; round < 20 && port_->ready_to_send(); round++) send(burst);
  }
  ASSERT_FALSE(port_->ready_to_send());
  EXPECT_LT(rte_mempool_avail_count(pool_), free_before_);
}

}  // namespace
}  // namespace uroce::netswitch
