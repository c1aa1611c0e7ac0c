// Which queue pairs of raw packets get a frame: kinds of flows, priorities, actions, and what stays the engine's.
#include "engine/steering.h"

#include "bytes.h"
#include "engine/port_filters.h"
#include "engine/receiver.h"
#include "engine/transmitter.h"
#include "engine_parts.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce::test {
namespace {

// 10.0.0.1:1000 to 10.0.0.2:2000, UDP.
const char* const kUnicast =
    "02000000000202000000000108004500002000010000401100000a0000010a000002"
    "03e807d0000c000001020304";
const char* const kMulticast =
    "01005e01020302000000000108004500002000010000401100000a000001ef010203"
    "03e807d0000c000001020304";

class SteeringTest : public EngineParts, private RawFilter {
 protected:
  static constexpr uint32_t kReceiveBytes = 256;

  Qp& raw_qp(uint32_t receives = 4) {
    QpInit of = init(QpType::kRawPacket);
    Qp& qp = *qps_.create(of, nullptr);
    QpAttributes attributes;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attributes.state = state;
      EXPECT_EQ(qp.modify(attributes, required_attributes(qp.type(), qp.state(), state), nullptr, false, kNow),
                ModifyResult::kOk);
    }
    if (key_ == 0)
      key_ = objects_.memory().register_region(pd_, memory_, sizeof memory_, reinterpret_cast<uint64_t>(memory_),
                                               kLocalWrite);
    for (uint32_t i = 0; i < receives; i++) {
      const Sge sge{reinterpret_cast<uint64_t>(memory_), kReceiveBytes, key_};
      EXPECT_EQ(qp.post_recv({i, &sge, 1}, kNow), PostResult::kOk);
    }
    return qp;
  }
  static FlowRule flow(Qp& qp, uint16_t priority = 0, FlowRuleKind kind = FlowRuleKind::kNormal) {
    FlowRule flow;
    flow.kind = kind;
    flow.priority = priority;
    flow.qp = &qp;
    return flow;
  }
  static FlowRule to_port(Qp& qp, uint8_t low_byte, uint16_t priority = 0) {
    FlowRule wanted = flow(qp, priority);
    wanted.match.mask.dst_port[1] = 0xFF;
    wanted.match.value.dst_port[1] = low_byte;
    return wanted;
  }
  void arrive(const char* text) { arrive(from_hex(text)); }
  void arrive(const Bytes& frame) {
    EXPECT_TRUE(port_.deliver(frame));
    receiver_.receive(kNow);
  }
  /// Completions since the last call: queue pair and length of each.
  std::vector<std::pair<uint32_t, uint32_t>> received() {
    Completion completions[16];
    std::vector<std::pair<uint32_t, uint32_t>> all;
    for (uint32_t i = 0, count = cq_->poll(completions); i < count; i++) {
      EXPECT_EQ(completions[i].status, WcStatus::kSuccess);
      all.emplace_back(completions[i].qp_num, completions[i].byte_len);
      tag_ = completions[i].flow_tag;
    }
    return all;
  }
  using Received = std::vector<std::pair<uint32_t, uint32_t>>;

  std::vector<MacAddress> wanted_;
  bool wants_all_ = false;
  uint32_t tag_ = 0;
  uint8_t memory_[kReceiveBytes] = {};
  uint32_t key_ = 0;
  Steering steering_{loopback_, schedule_, counters_, this};
  Receiver receiver_{{port_, addresses_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_,
                      multicast_, &steering_},
                     counters_};
  Transmitter transmitter_{
      {port_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_, &steering_},
      counters_,
      config_.mac};

 private:
  void want_raw(const std::vector<MacAddress>& macs, bool all) override {
    wanted_ = macs;
    wants_all_ = all;
  }
};

TEST_F(SteeringTest, AFrameArrivesWhole) {
  Qp& qp = raw_qp();
  steering_.add(flow(qp));
  const Bytes frame = from_hex(kUnicast);
  arrive(frame);
  EXPECT_EQ(received(), (Received{{qp.qpn(), 46}}));
  EXPECT_EQ(Bytes(memory_, memory_ + frame.size()), frame);
  EXPECT_EQ(counters_.rx_raw_frames, 1u);
  EXPECT_EQ(counters_.rx_drop_not_roce, 0u);
}

TEST_F(SteeringTest, WithoutAFlowItIsDropped) {
  Qp& qp = raw_qp();
  arrive(kUnicast);
  EXPECT_EQ(counters_.rx_drop_not_roce, 1u);
  const FlowRule* const made = steering_.add(to_port(qp, 0xd0));
  arrive(kUnicast);
  steering_.remove(*made);
  arrive(kUnicast);
  EXPECT_EQ(received().size(), 1u);
  EXPECT_EQ(counters_.rx_drop_not_roce, 2u);
}

TEST_F(SteeringTest, PausesAreTheEnginesAndSniffersSeeThem) {
  Qp &all = raw_qp(), &any = raw_qp(), &dropping = raw_qp(), &sniffer = raw_qp();
  steering_.add(flow(all, 0, FlowRuleKind::kAllDefault));
  steering_.add(flow(any));
  FlowRule drop = flow(dropping);
  drop.drops = true;
  steering_.add(drop);
  Bytes pause = from_hex("0180c2000001020000000009880801010008000000000000ffff");
  pause.resize(60);
  arrive(pause);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(counters_.rx_drop_flow, 0u);
  steering_.add(flow(sniffer, 0, FlowRuleKind::kSniffer));
  arrive(pause);
  EXPECT_EQ(received(), (Received{{sniffer.qpn(), 60}}));
}

TEST_F(SteeringTest, TheLowestPriorityNumberWins) {
  Qp &late = raw_qp(), &early = raw_qp();
  steering_.add(to_port(late, 0xd0, 7));
  const FlowRule* const first = steering_.add(to_port(early, 0xd0, 3));
  steering_.add(to_port(late, 0x01, 0));  // matches nothing
  arrive(kUnicast);
  EXPECT_EQ(received(), (Received{{early.qpn(), 46}}));
  steering_.remove(*first);
  arrive(kUnicast);
  EXPECT_EQ(received(), (Received{{late.qpn(), 46}}));
}

TEST_F(SteeringTest, FlowsOfOnePriorityEachGetACopy) {
  Qp &a = raw_qp(), &b = raw_qp();
  steering_.add(flow(a, 5));
  steering_.add(flow(b, 5));
  arrive(kUnicast);
  EXPECT_EQ(received(), (Received{{a.qpn(), 46}, {b.qpn(), 46}}));
}

TEST_F(SteeringTest, AFlowThatDoesNotTrapLetsOthersSee) {
  Qp &a = raw_qp(), &b = raw_qp();
  FlowRule open = flow(a, 1);
  open.traps = false;
  steering_.add(open);
  steering_.add(flow(b, 2));
  arrive(kUnicast);
  EXPECT_EQ(received(), (Received{{a.qpn(), 46}, {b.qpn(), 46}}));
}

TEST_F(SteeringTest, DropTagAndCount) {
  Qp& qp = raw_qp();
  FlowCounter counter;
  FlowRule tagged = flow(qp, 2);
  tagged.tag = 0xABCDEF;
  tagged.counters = {&counter};
  steering_.add(tagged);
  arrive(kUnicast);
  EXPECT_EQ(received().size(), 1u);
  EXPECT_EQ(tag_, 0xABCDEFu);
  EXPECT_EQ(counter.packets, 1u);
  EXPECT_EQ(counter.bytes, 46u);
  FlowRule dropping = to_port(qp, 0xd0, 1);
  dropping.drops = true;
  steering_.add(dropping);
  arrive(kUnicast);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(counters_.rx_drop_flow, 1u);
  EXPECT_EQ(counter.packets, 1u) << "it was not asked";
}

TEST_F(SteeringTest, EachFlowCountsAFrameThatSeveralSee) {
  Qp& qp = raw_qp(16);
  FlowCounter open_counts, first_counts, second_counts, shared, late_counts, sniffed, by_default;
  FlowRule open = flow(qp, 1), first = flow(qp, 2), second = to_port(qp, 0xd0, 2), late = flow(qp, 3);
  FlowRule sniffer = flow(qp, 0, FlowRuleKind::kSniffer), others = flow(qp, 0, FlowRuleKind::kAllDefault);
  open.traps = false;
  open.counters = {&open_counts};
  first.counters = {&first_counts, &shared};
  second.counters = {&shared, &second_counts};
  late.counters = {&late_counts};
  sniffer.counters = {&sniffed};
  others.counters = {&by_default};
  for (const FlowRule& each : {open, first, second, late, sniffer, others}) steering_.add(each);
  for (uint64_t frames = 1; frames <= 3; frames++) {
    arrive(kUnicast);
    EXPECT_EQ(received().size(), 4u);
    for (const FlowCounter* counter : {&open_counts, &first_counts, &second_counts, &sniffed}) {
      EXPECT_EQ(counter->packets, frames);
      EXPECT_EQ(counter->bytes, 46 * frames);
    }
    EXPECT_EQ(shared.packets, 2 * frames) << "of two flows";
    EXPECT_EQ(shared.bytes, 2 * 46 * frames);
  }
  EXPECT_EQ(late_counts.packets + by_default.packets, 0u) << "they were not asked";
}

TEST_F(SteeringTest, DefaultsGetWhatNobodyTook) {
  Qp &all = raw_qp(), &many = raw_qp(), &normal = raw_qp();
  steering_.add(flow(all, 0, FlowRuleKind::kAllDefault));
  steering_.add(flow(many, 0, FlowRuleKind::kMulticastDefault));
  arrive(kUnicast);
  EXPECT_EQ(received(), (Received{{all.qpn(), 46}}));
  arrive(kMulticast);
  EXPECT_EQ(received(), (Received{{many.qpn(), 46}, {all.qpn(), 46}}));
  steering_.add(to_port(normal, 0xd0, 9));
  arrive(kMulticast);
  EXPECT_EQ(received(), (Received{{normal.qpn(), 46}}));
}

TEST_F(SteeringTest, ASnifferSeesAllAndTakesNothing) {
  Qp &sniffer = raw_qp(), &normal = raw_qp();
  steering_.add(flow(sniffer, 0, FlowRuleKind::kSniffer));
  steering_.add(to_port(normal, 0xd0));
  arrive(kUnicast);
  EXPECT_EQ(received(), (Received{{normal.qpn(), 46}, {sniffer.qpn(), 46}}));
  Qp& connection = connected();
  const Sge sge{reinterpret_cast<uint64_t>(memory_), 4, key_};
  EXPECT_EQ(connection.post_recv({9, &sge, 1}, kNow), PostResult::kOk);
  const Bytes roce = frame_of(ipv4_path(), send_to(connection), {}, Bytes(4, 0x55));
  arrive(roce);
  EXPECT_EQ(received(), (Received{{sniffer.qpn(), uint32_t(roce.size())}, {connection.qpn(), 4}}));
}

TEST_F(SteeringTest, NoFlowTakesOrDropsRoce) {
  Qp& greedy = raw_qp();
  FlowRule drop_all = flow(greedy);
  drop_all.drops = true;
  steering_.add(drop_all);
  steering_.add(flow(greedy, 0, FlowRuleKind::kAllDefault));
  Qp& connection = connected();
  const Sge sge{reinterpret_cast<uint64_t>(memory_), 4, key_};
  EXPECT_EQ(connection.post_recv({9, &sge, 1}, kNow), PostResult::kOk);
  arrive(frame_of(ipv4_path(), send_to(connection), {}, Bytes(4, 0x55)));
  EXPECT_EQ(received(), (Received{{connection.qpn(), 4}}));
  EXPECT_EQ(counters_.rx_drop_flow, 0u);
  Bth to_raw = send_to(connection);
  to_raw.dest_qp = greedy.qpn();
  arrive(frame_of(ipv4_path(), to_raw, {}, Bytes(4, 0x55)));
  EXPECT_EQ(counters_.rx_drop_qp_service, 1u) << "a queue pair of raw packets has no packets of RoCE";
}

TEST_F(SteeringTest, WithoutAReceiveOrReadinessAFrameIsACountedDrop) {
  Qp& qp = raw_qp(0);
  steering_.add(flow(qp));
  arrive(kUnicast);
  EXPECT_EQ(counters_.rx_drop_no_receive, 1u);
  QpAttributes reset;
  reset.state = QpState::kReset;
  EXPECT_EQ(qp.modify(reset, kAttrState, nullptr, false, kNow), ModifyResult::kOk);
  arrive(kUnicast);
  EXPECT_EQ(counters_.rx_drop_qp_state, 1u);
}

TEST_F(SteeringTest, AGroupSharesFramesByTheirHash) {
  Qp &a = raw_qp(8), &b = raw_qp(8);
  RssGroup group{{&a, &b}, {}, kRssDstPortUdp};
  group.key.fill(0);
  group.key[1] = 1;  // the hash is the last bit of the port's first byte, at bit 8, and so on
  group.key[3] = 0x80;
  steering_.add_group(group);
  FlowRule shared;
  shared.group = &group;
  steering_.add(shared);
  Bytes frame = from_hex(kUnicast);
  for (uint32_t port = 0; port < 8; port++) {
    frame[36] = static_cast<uint8_t>(port * 37);
    const uint32_t hash = rss_hash(group.key, group.fields, flow_key_of(frame));
    arrive(frame);
    EXPECT_EQ(received(), (Received{{(hash & 1) != 0 ? b.qpn() : a.qpn(), 46}}));
  }
  steering_.forget(a);
  steering_.forget(b);
  arrive(frame);
  EXPECT_EQ(counters_.rx_drop_flow, 1u) << "its queues are gone";
}

TEST_F(SteeringTest, ThePortHearsWhichAddressesFlowsName) {
  Qp& qp = raw_qp();
  FlowRule named = flow(qp);
  std::fill_n(named.match.mask.dst_mac, 6, uint8_t{0xFF});
  named.match.value.dst_mac[0] = 2;
  const FlowRule* const first = steering_.add(named);
  EXPECT_EQ(wanted_, (std::vector{MacAddress{{2, 0, 0, 0, 0, 0}}}));
  EXPECT_FALSE(wants_all_);
  steering_.add(named);
  EXPECT_EQ(wanted_.size(), 1u) << "once";
  const FlowRule* const any = steering_.add(flow(qp));
  EXPECT_TRUE(wants_all_);
  steering_.remove(*any);
  EXPECT_FALSE(wants_all_);
  steering_.remove(*first);
  EXPECT_EQ(wanted_.size(), 1u) << "another flow still has it";
}

TEST_F(SteeringTest, ThereIsAnEndToFlows) {
  Qp& qp = raw_qp();
  std::vector<const FlowRule*> flows;
  for (uint32_t i = 0; i < Steering::kFlowsMax; i++) flows.push_back(steering_.add(flow(qp)));
  EXPECT_NE(flows.back(), nullptr);
  EXPECT_EQ(steering_.add(flow(qp)), nullptr);
  for (size_t i = flows.size(); i-- > 0;) steering_.remove(*flows[i]);
  EXPECT_EQ(steering_.size(), 0u);
}

TEST_F(SteeringTest, AFrameToOneselfComesBackAndOneToOthersDoesNot) {
  Qp& qp = raw_qp();
  steering_.add(flow(qp));
  uint8_t frame[64] = {};
  const uint32_t key =
      objects_.memory().register_region(pd_, frame, sizeof frame, reinterpret_cast<uint64_t>(frame), 0);
  const auto send = [&](const MacAddress& dst) {
    std::copy(dst.bytes.begin(), dst.bytes.end(), frame);
    const Sge sge{reinterpret_cast<uint64_t>(frame), sizeof frame, key};
    SendWr wr;
    wr.sges = &sge;
    wr.num_sge = 1;
    EXPECT_EQ(qp.post_send(wr, kNow), PostResult::kOk);
    schedule_.update(qp);
    transmitter_.transmit(kNow);
    EXPECT_TRUE(port_.take().has_value()) << "it leaves in any case";
    receiver_.drain_loopback(kNow);
    return received().size();
  };
  EXPECT_EQ(send(config_.mac), 1u);
  EXPECT_EQ(send(MacAddress{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}}), 1u);
  EXPECT_EQ(send(kPeerMac), 0u);
}

}  // namespace
}  // namespace uroce::test
