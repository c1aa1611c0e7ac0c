// A port with a queue for each destination: who waits for one that is congested, and who does not.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/qpn_blocks.h"
#include "engine/transmitter.h"
#include "engine_parts.h"
#include "listed_blocks.h"
#include "packet/packet.h"
#include "transport/address_handle.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/transport_env.h"

namespace uroce::test {
namespace {

/// A port in memory.
class DestinationPort final : public Port {
 public:
  explicit DestinationPort(bool queues) : queues_(queues) {}
  uint32_t receive(RxFrame*, uint32_t) override { return 0; }
  void release_rx(RxFrame*, uint32_t) override {}
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override { return wire.acquire_tx(frames, max); }
  void send(TxFrame* frames, uint32_t count) override { wire.send(frames, count); }
  bool queues_by_destination() const override { return queues_; }
  bool congested(const MacAddress& dst, uint32_t dest_qpn) override {
    asked++;
    last_mac = dst;
    return full.contains(dest_qpn);
  }

  /// Counts the frames for a QP that have left.
  uint32_t left(uint32_t dest_qpn) {
    while (const auto frame = wire.take()) {
      PacketView packet;
      EXPECT_EQ(parse_frame(*frame, packet), ParseResult::kOk);
      sent_.insert(packet.bth.dest_qp);
    }
    const auto count = static_cast<uint32_t>(sent_.count(dest_qpn));
    sent_.erase(dest_qpn);
    return count;
  }

  std::set<uint32_t> full;
  uint32_t asked = 0;
  MacAddress last_mac;
  MemoryPort wire{1024, 1024};

 private:
  const bool queues_;
  std::multiset<uint32_t> sent_;
};

class Destinations : public EngineParts {
 protected:
  static constexpr uint32_t kFull = 0x700;
  static constexpr uint32_t kFree = 0x800;
  static constexpr uint32_t kMost = 4 + 4 * 32;  // frames of one transmission

  /// `count` messages of 16 frames each.
  void post_long(Qp& qp, int count) {
    if (key_ == 0) {
      key_ = objects_.memory().register_region(pd_, memory_, sizeof memory_, reinterpret_cast<uint64_t>(memory_),
                                               kLocalWrite);
    }
    const Sge sge{reinterpret_cast<uint64_t>(memory_), sizeof memory_, key_};
    SendWr wr;
    wr.opcode = WrOpcode::kSend;
    wr.sges = &sge;
    wr.num_sge = 1;
    for (int i = 0; i < count; i++) ASSERT_EQ(qp.post_send(wr, kNow), PostResult::kOk);
    schedule_.update(qp);
  }
  Qp& to_qp(uint32_t dest_qpn, QpType type = QpType::kUc) { return connected(to(kPeerIp), type, dest_qpn); }
  Qp& datagrams() {
    Qp& ud = *qps_.create(init(QpType::kUd), nullptr);
    QpAttributes attributes;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attributes.state = state;
      const uint32_t mask = required_attributes(QpType::kUd, ud.state(), state);
      EXPECT_EQ(ud.modify(attributes, mask, nullptr, false, kNow), ModifyResult::kOk);
    }
    return ud;
  }
  void post_to(Qp& ud, const AddressHandle& ah, std::initializer_list<uint32_t> numbers) {
    SendWr wr;
    wr.opcode = WrOpcode::kSend;
    wr.ah = &ah;
    for (const uint32_t number : numbers) {
      wr.remote_qpn = number;
      ASSERT_EQ(ud.post_send(wr, kNow), PostResult::kOk);
    }
    schedule_.update(ud);
  }

  uint8_t memory_[16 * 256] = {};
  uint32_t key_ = 0;
  DestinationPort port_of_queues_{true};
  Transmitter transmitter_{
      {port_of_queues_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
      counters_,
      config_.mac};
};

TEST_F(Destinations, TheOthersFlowAtFullRate) {
  for (const uint32_t dest : {kFull, kFull + 1}) post(to_qp(dest), 16);
  post_long(to_qp(kFree), 16);
  post(to_qp(kFull + 2), 16);
  port_of_queues_.full = {kFull, kFull + 1, kFull + 2};
  EXPECT_EQ(transmitter_.transmit(kNow), kMost);
  EXPECT_EQ(port_of_queues_.left(kFree), kMost);
  EXPECT_EQ(port_of_queues_.asked, 3u + 1 + 4 * 2) << "those that wait once, the other one before each of its turns";
  EXPECT_EQ(transmitter_.transmit(kNow), 256u - kMost);
  EXPECT_EQ(port_of_queues_.left(kFree), 256u - kMost);
  EXPECT_TRUE(schedule_.wants_transmit()) << "whoever drives the engine comes back";
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  EXPECT_TRUE(schedule_.wants_transmit());
  EXPECT_EQ(schedule_.ready_count(), 3u);
}

TEST_F(Destinations, GoOnWhenTheyAreFree) {
  Qp& first = to_qp(kFull, QpType::kRc);
  Qp& second = to_qp(kFull + 1);
  post(first, 3);
  post(second, 3);
  port_of_queues_.full = {kFull, kFull + 1};
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  EXPECT_EQ(port_of_queues_.last_mac, kPeerMac);
  port_of_queues_.full = {kFull};
  EXPECT_EQ(transmitter_.transmit(kNow), 3u);
  EXPECT_EQ(port_of_queues_.left(kFull + 1), 3u);
  port_of_queues_.full.clear();
  EXPECT_EQ(transmitter_.transmit(kNow), 3u);
  EXPECT_EQ(port_of_queues_.left(kFull), 3u);
  EXPECT_FALSE(schedule_.wants_transmit());
}

TEST_F(Destinations, ADestinationThatIsCongestedAmidABurstStopsIt) {
  Qp& qp = to_qp(kFull);
  post_long(qp, 16);
  // Its first turns are granted: the port is asked before each.
  EXPECT_EQ(transmitter_.transmit(kNow), kMost);
  port_of_queues_.full = {kFull};
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  port_of_queues_.full.clear();
  EXPECT_EQ(transmitter_.transmit(kNow), 256u - kMost);
}

TEST_F(Destinations, TheTimeCountsFromWhenAPacketLeaves) {
  timeout_ = 8;
  constexpr Duration kTimeout{4096 << 8};
  Qp& qp = to_qp(kFull, QpType::kRc);
  post(qp);
  port_of_queues_.full = {kFull};
  const Instant late = kNow + milliseconds(10000);
  for (const Instant now : {kNow, late}) {
    EXPECT_EQ(transmitter_.transmit(now), 0u);
    EXPECT_EQ(qp.next_timeout(), Instant::never());
  }
  port_of_queues_.full.clear();
  EXPECT_EQ(transmitter_.transmit(late), 1u);
  EXPECT_EQ(qp.next_timeout(), late + kTimeout);
  // The retransmission cannot leave, so no further one is due.
  port_of_queues_.full = {kFull};
  const Instant expired = late + kTimeout;
  qp.on_timeout(expired);
  schedule_.update(qp);
  EXPECT_EQ(transmitter_.transmit(expired), 0u);
  EXPECT_EQ(qp.next_timeout(), Instant::never());
  port_of_queues_.full.clear();
  EXPECT_EQ(transmitter_.transmit(expired + kTimeout), 1u);
  EXPECT_EQ(qp.next_timeout(), expired + kTimeout + kTimeout + kTimeout);
  EXPECT_EQ(qp.state(), QpState::kRts);
}

TEST_F(Destinations, UnknownPeersAreNotAsked) {
  port_of_queues_.full = {0x777};
  post(connected(to(IpAddress::v4(0x0A000063))));
  transmitter_.transmit(kNow);
  EXPECT_EQ(port_of_queues_.asked, 0u);
}

/// With hops: each number below 256 has a place, valid in the current epoch.
class HopPort final : public Port, public NextHops {
 public:
  uint32_t receive(RxFrame*, uint32_t) override { return 0; }
  void release_rx(RxFrame*, uint32_t) override {}
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override { return wire_.acquire_tx(frames, max); }
  void send(TxFrame* frames, uint32_t count) override {
    for (uint32_t i = 0; i < count; i++) {
      if (frames[i].bytes == 0) continue;
      PacketView packet;
      EXPECT_EQ(parse_frame({frames[i].data, frames[i].bytes}, packet), ParseResult::kOk);
      const NextHop& hop = frames[i].hop;
      EXPECT_TRUE(hop.place == nullptr || hop.epoch == now);
      sent.emplace_back(packet.bth.dest_qp, hop.place == nullptr ? 0 : to(hop));
    }
    wire_.send(frames, count);
    wire_.discard();
  }
  bool queues_by_destination() const override { return true; }
  bool congested(const MacAddress&, uint32_t dest_qpn) override {
    EXPECT_FALSE(leads(dest_qpn)) << "it is asked for the hop";
    return full.contains(dest_qpn);
  }
  NextHops* next_hops() override { return this; }
  NextHop find(const MacAddress&, uint32_t dest_qpn) override {
    asked++;
    return {leads(dest_qpn) ? reinterpret_cast<void*>(uintptr_t{dest_qpn}) : nullptr, now};
  }
  bool congested(const NextHop& hop) override {
    EXPECT_EQ(hop.epoch, now);
    return full.contains(to(hop));
  }
  const uint64_t& epoch() const override { return now; }
  bool leads(uint32_t dest_qpn) const { return !strangers.contains(dest_qpn); }

  using Sent = std::vector<std::pair<uint32_t, uint32_t>>;  // destination QP, and where the hop leads; 0: no hop
  Sent take_sent() { return std::exchange(sent, {}); }

  std::set<uint32_t> full;
  std::set<uint32_t> strangers;
  uint64_t now = 1;
  uint32_t asked = 0;
  Sent sent;

 private:
  static uint32_t to(const NextHop& hop) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(hop.place)); }

  MemoryPort wire_{1024, 1024};
};

class Hops : public Destinations {
 protected:
  static constexpr uint32_t kPeer = 0x700;
  using Sent = HopPort::Sent;

  HopPort hops_;
  Transmitter with_hops_{{hops_, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
                         counters_,
                         config_.mac};
};

TEST_F(Hops, AreAskedForOncePerEpoch) {
  Qp& qp = to_qp(kPeer);
  for (int i = 0; i < 3; i++) {
    post(qp);
    with_hops_.transmit(kNow);
  }
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer, kPeer}, {kPeer, kPeer}, {kPeer, kPeer}}));
  EXPECT_EQ(hops_.asked, 1u);
  hops_.now++;
  hops_.strangers = {kPeer};
  for (int i = 0; i < 2; i++) {
    post(qp);
    with_hops_.transmit(kNow);
  }
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer, 0}, {kPeer, 0}})) << "the port finds out by itself";
  EXPECT_EQ(hops_.asked, 2u);
  hops_.now++;
  hops_.strangers.clear();
  post(qp);
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer, kPeer}}));
}

TEST_F(Hops, SayWhoHasToWait) {
  post(to_qp(kPeer));
  post(to_qp(kPeer + 1));
  post(to_qp(kPeer + 2));
  hops_.full = {kPeer, kPeer + 2};
  hops_.strangers = {kPeer + 2};
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer + 1, kPeer + 1}}));
  hops_.full.clear();
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer, kPeer}, {kPeer + 2, 0}}));
}

TEST_F(Hops, AQueuePairThatGetsAnotherPeerIsAskedForAgain) {
  Qp& qp = to_qp(kPeer);
  post(qp);
  with_hops_.transmit(kNow);
  QpAttributes attributes;
  attributes.state = QpState::kReset;
  ASSERT_EQ(qp.modify(attributes, kAttrState, nullptr, false, kNow), ModifyResult::kOk);
  attributes.av = to(kPeerIp);
  attributes.path_mtu_bytes = 256;
  attributes.dest_qpn = kPeer + 1;
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    attributes.state = state;
    const std::optional<Route> path = router_.route(attributes.av, 1);
    const uint32_t mask = required_attributes(QpType::kUc, qp.state(), state);
    ASSERT_EQ(qp.modify(attributes, mask, &*path, true, kNow), ModifyResult::kOk);
  }
  post(qp);
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer, kPeer}, {kPeer + 1, kPeer + 1}}));
  qp.on_path_resolved({{0x52, 0x54, 0, 0, 0, 9}});
  post(qp);
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.asked, 3u) << "the peer has another MAC";
}

/// A port that sets no more of a frame than it must.
class FrugalPort final : public Port {
 public:
  uint32_t receive(RxFrame*, uint32_t) override { return 0; }
  void release_rx(RxFrame*, uint32_t) override {}
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override {
    for (uint32_t i = 0; i < max; i++) {
      frames[i].data = memory_[i];
      frames[i].capacity = sizeof memory_[i];
    }
    return max;
  }
  void send(TxFrame* frames, uint32_t count) override {
    for (uint32_t i = 0; i < count; i++) sent += frames[i].bytes != 0 ? 1 : 0;
  }

  uint32_t sent = 0;

 private:
  uint8_t memory_[kMaxBurst][1024] = {};
};

TEST_F(Destinations, NothingOfABurstIsSentAgainWithTheNext) {
  FrugalPort port;
  Transmitter transmitter({port, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
                          counters_, config_.mac);
  Qp& qp = to_qp(kFree);
  for (const int messages : {6, 1, 3, 2}) {
    port.sent = 0;
    post(qp, messages);
    EXPECT_EQ(transmitter.transmit(kNow), static_cast<uint32_t>(messages));
    EXPECT_EQ(port.sent, static_cast<uint32_t>(messages));
  }
}

TEST_F(Hops, EachDatagramHasItsOwn) {
  Qp& ud = datagrams();
  const std::unique_ptr<AddressHandle> ah = objects_.create_ah(pd_, *router_.route(to(kPeerIp), 1), 0);
  hops_.strangers = {kPeer + 2};
  post_to(ud, *ah, {kPeer, kPeer + 1, kPeer, kPeer + 2, kPeer + 3, kPeer + 3});
  hops_.full = {kPeer + 3};
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer, kPeer}, {kPeer + 1, kPeer + 1}, {kPeer, kPeer}, {kPeer + 2, 0}}));
  hops_.full.clear();
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer + 3, kPeer + 3}, {kPeer + 3, kPeer + 3}}));
}

TEST_F(Hops, ADatagramBehindOneForNobodyHasItsOwn) {
  Qp& ud = datagrams();
  const std::unique_ptr<AddressHandle> known = objects_.create_ah(pd_, *router_.route(to(kPeerIp), 1), 0);
  const std::unique_ptr<AddressHandle> unknown =
      objects_.create_ah(pd_, *router_.route(to(IpAddress::v4(0x0A000063)), 1), 0);
  post_to(ud, *unknown, {kPeer});
  post_to(ud, *known, {kPeer + 1});
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer + 1, kPeer + 1}}));
  EXPECT_EQ(counters_.tx_neighbour_unresolved, 1u);
}

TEST_F(Hops, FramesOfTheHostHaveNone) {
  Qp& qp = to_qp(kPeer, QpType::kRc);
  for (int i = 0; i < 2; i++) {
    post(qp, 2);
    with_hops_.transmit(kNow);
  }
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer, kPeer}, {kPeer, kPeer}, {kPeer, kPeer}, {kPeer, kPeer}}));
  schedule_.want_cnp(qp);
  with_hops_.transmit(kNow);
  EXPECT_EQ(hops_.take_sent(), (Sent{{kPeer, 0}})) << "nothing is left of the frames before";
}

/// Other programs of the host have our MAC, too: whether a number is ours is asked for each frame, since further blocks
/// of numbers may be taken at any time.
TEST_F(Hops, OurOwnMacLeadsToOurselvesOrToAnotherProgram) {
  ListedBlocks blocks({5, 6});
  TransportEnv env{objects_.memory(), counters_, *this};
  QpTable ours(2 * kQpsPerBlock, random_, &blocks);
  ASSERT_NE(ours.next_free().index, QpTable::kNone);
  Transmitter transmitter({hops_, ours, schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
                          counters_, config_.mac);
  constexpr uint32_t kOurs = 5 << kQpnBlockBits, kTheirs = 7 << kQpnBlockBits, kOursLater = 6 << kQpnBlockBits;
  Qp& to_us = connected(to(config_.addresses[0].ip), QpType::kUc, kOurs);
  Qp& to_them = connected(to(config_.addresses[0].ip), QpType::kUc, kTheirs);
  Qp& to_us_later = connected(to(config_.addresses[0].ip), QpType::kUc, kOursLater);
  hops_.full = {kOurs};
  const auto post_all = [&] {
    for (Qp* qp : {&to_us, &to_them, &to_us_later}) post(*qp);
    transmitter.transmit(kNow);
  };
  post_all();
  EXPECT_EQ(hops_.take_sent(), (Sent{{kTheirs, kTheirs}, {kOursLater, kOursLater}}));
  EXPECT_EQ(loopback_.size(), 1u);
  for (uint32_t i = 0; i < kQpsPerBlock; i++) {
    const QpTable::Slot slot = ours.next_free();
    ASSERT_NE(slot.index, QpTable::kNone);
    ours.put(slot.index, std::make_unique<Qp>(init(), slot.qpn, slot.index, 256u, env, nullptr));
  }
  ASSERT_NE(ours.next_free().index, QpTable::kNone) << "the second block is ours by now";
  ASSERT_TRUE(ours.owns(kOursLater));
  post_all();
  EXPECT_EQ(hops_.take_sent(), (Sent{{kTheirs, kTheirs}}));
  EXPECT_EQ(loopback_.size(), 3u);
}

TEST_F(Destinations, ADatagramWaitsForItsDestinationAndThoseBehindItForIt) {
  Qp& ud = datagrams();
  const std::unique_ptr<AddressHandle> ah = objects_.create_ah(pd_, *router_.route(to(kPeerIp), 1), 0);
  post_to(ud, *ah, {kFree, kFree, kFull, kFree});
  port_of_queues_.full = {kFull};
  EXPECT_EQ(transmitter_.transmit(kNow), 2u);
  EXPECT_EQ(port_of_queues_.left(kFree), 2u);
  EXPECT_EQ(port_of_queues_.last_mac, kPeerMac);
  post(to_qp(kFree + 1));
  EXPECT_EQ(transmitter_.transmit(kNow), 1u) << "other QPs go on";
  EXPECT_EQ(port_of_queues_.left(kFree + 1), 1u);
  EXPECT_TRUE(schedule_.wants_transmit());
  port_of_queues_.full.clear();
  EXPECT_EQ(transmitter_.transmit(kNow), 2u);
  EXPECT_EQ(port_of_queues_.left(kFull), 1u);
  EXPECT_EQ(port_of_queues_.left(kFree), 1u);
  EXPECT_FALSE(schedule_.wants_transmit());
}

TEST_F(Destinations, OnlyWhatThePortSeesIsAskedFor) {
  ListedBlocks blocks({5});
  QpTable ours(4, random_, &blocks);
  ASSERT_NE(ours.next_free().index, QpTable::kNone);
  Transmitter transmitter(
      {port_of_queues_, ours, schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_}, counters_,
      config_.mac);
  constexpr uint32_t kOurs = 5 << kQpnBlockBits, kTheirs = 6 << kQpnBlockBits;
  port_of_queues_.full = {kOurs, kTheirs};
  post(connected(to(config_.addresses[0].ip), QpType::kUc, kOurs));
  EXPECT_EQ(transmitter.transmit(kNow), 0u);
  EXPECT_EQ(loopback_.size(), 1u);
  EXPECT_EQ(port_of_queues_.asked, 0u);
  post(connected(to(config_.addresses[0].ip), QpType::kUc, kTheirs));
  EXPECT_EQ(transmitter.transmit(kNow), 0u);
  EXPECT_EQ(port_of_queues_.asked, 1u);
  EXPECT_TRUE(schedule_.wants_transmit());
}

TEST_F(Destinations, ALastAckWaitsInThePort) {
  Qp& qp = to_qp(kFull, QpType::kRc);
  post(qp);
  port_of_queues_.full = {kFull};
  EXPECT_EQ(transmitter_.transmit(kNow), 0u);
  transmitter_.send_last_ack(qp, kNow);
  EXPECT_EQ(port_of_queues_.left(kFull), 1u);
  post(qp);
  EXPECT_EQ(transmitter_.transmit(kNow), 0u) << "the one that ended was that time's";
}

TEST_F(Destinations, APortWithOneQueueIsNotAsked) {
  DestinationPort port(false);
  port.full = {kFull};
  Transmitter transmitter({port, qps_.table(), schedule_, pfc_, neighbours_, loopback_, tap_, management_, multicast_},
                          counters_, config_.mac);
  post(to_qp(kFull));
  EXPECT_EQ(transmitter.transmit(kNow), 1u);
  EXPECT_EQ(port.asked, 0u);
}

}  // namespace
}  // namespace uroce::test
