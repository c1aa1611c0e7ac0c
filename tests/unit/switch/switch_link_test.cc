// A link of the switch over a port that is a list: what arrives in pieces, and what is too long.
#include "uroce_switch/switch_link.h"

#include <deque>

#include "eal_test.h"

namespace uroce::netswitch {
namespace {

/// Returns the frames in `arrived`, and keeps those that it is sent.
class ListPort final : public SwitchPort {
 public:
  ~ListPort() override {
    for (rte_mbuf* mbuf : sent) rte_pktmbuf_free(mbuf);
  }
  uint32_t receive(rte_mbuf** mbufs, uint32_t max) override {
    uint32_t count = 0;
    for (; count < max && !arrived.empty(); count++, arrived.pop_front()) mbufs[count] = arrived.front();
    return count;
  }
  bool ready_to_send() override { return true; }
  void send(rte_mbuf* const* mbufs, uint32_t count) override { sent.insert(sent.end(), mbufs, mbufs + count); }
  void on_turn(Instant) override {}
  bool waiting() const override { return false; }
  bool link_up() const override { return true; }
  void read_link() override {}
  uint32_t link_speed_mbps() const override { return 0; }
  const DpdkPortCounters& counters() const override { return counters_; }

  std::deque<rte_mbuf*> arrived;
  std::vector<rte_mbuf*> sent;

 private:
  DpdkPortCounters counters_;
};

class SwitchLinkTest : public EalTest {
 protected:
  void SetUp() override {
    EalTest::SetUp();
    connect({}, {});
  }
  /// Port 0 with faults in both directions.
  void connect(const fabric::ImpairmentConfig& in, const fabric::ImpairmentConfig& out) {
    switch_.reset();
    for (auto& link : links_) link.reset();
    mbufs_ = std::make_unique<MbufPool>(pool_);
    fabric::SwitchConfig config;
    config.ports.resize(2);
    switch_ = std::make_unique<fabric::Switch>(config, *mbufs_, random_);
    for (fabric::PortId id = 0; id < 2; id++) {
      auto port = std::make_unique<ListPort>();
      ports_[id] = port.get();
      SwitchLinkConfig link;
      link.id = id;
      link.max_frame_bytes = 1500;
      link.max_delayed = kDelayed;
      if (id == 0) link.in = in;
      if (id == 0) link.out = out;
      links_[id] = std::make_unique<SwitchLink>(link, std::move(port), *mbufs_, Instant{0});
    }
  }
  void TearDown() override {
    switch_.reset();
    for (auto& link : links_) link.reset();
    expect_all_free();
  }
  void turn() {
    now_ = now_ + milliseconds(1);
    for (const auto& link : links_) link->receive(*switch_, now_);
    for (const auto& link : links_) link->transmit(*switch_, now_);
  }
  /// A broadcast, in segments of these sizes.
  static rte_mbuf* broadcast(std::initializer_list<uint32_t> pieces) {
    rte_mbuf* head = nullptr;
    for (const uint32_t bytes : pieces) {
      rte_mbuf* const piece = frame(bytes, static_cast<uint8_t>(head == nullptr ? 1 : head->nb_segs + 1));
      if (head == nullptr) {
        head = piece;
        memset(rte_pktmbuf_mtod(head, uint8_t*), 0xff, 6);
        const uint8_t source[6] = {2, 0, 0, 0, 0, 9};
        memcpy(rte_pktmbuf_mtod(head, uint8_t*) + 6, source, sizeof source);
      } else {
        EXPECT_EQ(rte_pktmbuf_chain(head, piece), 0);
      }
    }
    return head;
  }

  static constexpr uint32_t kDelayed = 16;

  std::unique_ptr<MbufPool> mbufs_;
  SeededRandom random_{1};
  std::unique_ptr<fabric::Switch> switch_;
  ListPort* ports_[2] = {};
  std::unique_ptr<SwitchLink> links_[2];
  Instant now_{0};
};

TEST_F(SwitchLinkTest, AFrameInPiecesLeavesAsOne) {
  ports_[0]->arrived.push_back(broadcast({100, 200, 300}));
  turn();
  ASSERT_EQ(ports_[1]->sent.size(), 1u);
  const rte_mbuf* mbuf = ports_[1]->sent[0];
  EXPECT_EQ(mbuf->nb_segs, 1);
  EXPECT_EQ(mbuf->data_len, 600);
  const auto* bytes = rte_pktmbuf_mtod(mbuf, const uint8_t*);
  EXPECT_EQ(bytes[99], 1);
  EXPECT_EQ(bytes[100], 2);
  EXPECT_EQ(bytes[299], 2);
  EXPECT_EQ(bytes[599], 3);
  EXPECT_EQ(links_[0]->counters().rx_too_long, 0u);
}

TEST_F(SwitchLinkTest, AFrameInPiecesThatDoesNotFitOneBufferIsCounted) {
  ports_[0]->arrived.push_back(broadcast({4000, 4000}));
  ports_[0]->arrived.push_back(broadcast({100}));
  turn();
  EXPECT_EQ(links_[0]->counters().rx_too_long, 1u);
  EXPECT_EQ(ports_[1]->sent.size(), 1u) << "the next one passes";
}

TEST_F(SwitchLinkTest, AFrameThatThePortCannotSendIsCounted) {
  ports_[0]->arrived.push_back(broadcast({1000, 501}));
  ports_[0]->arrived.push_back(broadcast({1000, 500}));
  turn();
  EXPECT_EQ(links_[1]->counters().tx_too_long, 1u);
  EXPECT_EQ(ports_[1]->sent.size(), 1u);
}

/// Delayed frames are kept as far as there is memory; the others are lost and counted, and their buffers are free.
TEST_F(SwitchLinkTest, DelayedFramesForWhichThereIsNoRoomAreCounted) {
  fabric::ImpairmentConfig late;
  ASSERT_EQ(fabric::parse_impairments("delay all by 5ms", late), "");
  for (const bool in : {true, false}) {
    connect(in ? late : fabric::ImpairmentConfig{}, in ? fabric::ImpairmentConfig{} : late);
    for (uint32_t i = 0; i < kDelayed + 3; i++) ports_[in ? 0 : 1]->arrived.push_back(broadcast({100}));
    turn();
    EXPECT_EQ(links_[0]->counters().in_delay_full, in ? 3u : 0u);
    EXPECT_EQ(links_[0]->counters().out_delay_full, in ? 0u : 3u);
    EXPECT_TRUE(ports_[in ? 1 : 0]->sent.empty());
    for (int i = 0; i < 20; i++) turn();
    EXPECT_EQ(ports_[in ? 1 : 0]->sent.size(), kDelayed) << "the others come, later";
  }
}

/// Those that are not delayed need no room, and pass the others.
TEST_F(SwitchLinkTest, WhatIsNotDelayedNeedsNoRoomAmongWhatIs) {
  fabric::ImpairmentConfig late;
  ASSERT_EQ(fabric::parse_impairments("delay 1-16 by 5ms", late), "");
  for (const bool in : {true, false}) {
    connect(in ? late : fabric::ImpairmentConfig{}, in ? fabric::ImpairmentConfig{} : late);
    for (uint32_t i = 0; i < kDelayed + 3; i++) ports_[in ? 0 : 1]->arrived.push_back(broadcast({100}));
    turn();
    EXPECT_EQ(ports_[in ? 1 : 0]->sent.size(), 3u);
    for (int i = 0; i < 20; i++) turn();
    EXPECT_EQ(ports_[in ? 1 : 0]->sent.size(), kDelayed + 3);
    EXPECT_EQ(links_[0]->counters().in_delay_full + links_[0]->counters().out_delay_full, 0u);
  }
}

/// The receiving port's flags must not tell the sending one to compute a checksum or insert a tag.
TEST_F(SwitchLinkTest, NothingIsLeftOfWhatTheReceivingPortSaid) {
  rte_mbuf* const mbuf = broadcast({100});
  mbuf->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_RSS_HASH | RTE_MBUF_F_TX_VLAN | RTE_MBUF_F_TX_IP_CKSUM;
  ports_[0]->arrived.push_back(mbuf);
  turn();
  ASSERT_EQ(ports_[1]->sent.size(), 1u);
  EXPECT_EQ(ports_[1]->sent[0]->ol_flags, 0u);
}

}  // namespace
}  // namespace uroce::netswitch
