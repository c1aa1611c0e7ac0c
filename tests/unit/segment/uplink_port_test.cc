// An uplink between a wire, whose frames the test carries by hand, and the programs of its host.
#include "segment/uplink_port.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "node.h"
#include "packet/host_frames.h"
#include "uroce/memory_port.h"

namespace uroce::segment {
namespace {

using namespace test;

MemberRecord uplink_record() {
  MemberRecord record = record_of("host", 1);
  record.role = Role::kUplink;
  return record;
}

class Uplink : public testing::Test {
 protected:
  void make(uint64_t rate = 0) { port.emplace(wire, *member.port, mac_of(1), rate); }
  void turn(Duration passed = milliseconds(3)) {
    member.turn(passed);
    port->on_turn(member.now);
  }
  /// The frames from the wire that the engine gets.
  Frames engine_gets() {
    RxFrame frames[Port::kMaxBurst];
    const uint32_t count = port->receive(frames, Port::kMaxBurst);
    Frames result;
    for (uint32_t i = 0; i < count; i++) result.emplace_back(frames[i].data, frames[i].data + frames[i].bytes);
    port->release_rx(frames, count);
    return result;
  }
  Frames on_the_wire() {
    Frames result;
    while (const auto frame = wire.take()) result.emplace_back(frame->begin(), frame->end());
    return result;
  }
  /// A frame from a program of the host to a distant peer.
  std::vector<uint8_t> outbound(size_t bytes, const MacAddress& from = mac_of(1)) {
    auto frame = roce_frame(kFarAway, 0x17, bytes);
    std::copy(from.bytes.begin(), from.bytes.end(), frame.begin() + 6);
    return frame;
  }

  TempDir dir;
  MemoryPort wire{64, 4096 + 128};
  Node member{dir, uplink_record()};
  std::optional<UplinkPort> port;
};

TEST_F(Uplink, GivesEachProgramItsFramesAndTheEngineTheRest) {
  make();
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const Frames frames{roce_frame(mac_of(1), a.qpn(), 200), roce_frame(mac_of(1), b.qpn(), 4000),
                      roce_frame(mac_of(1), a.qpn(), 90, 7), roce_frame(mac_of(1), 1, 300),
                      roce_frame(kFarAway, a.qpn(), 100)};
  turn();
  for (const auto& frame : frames) ASSERT_TRUE(wire.deliver(frame));
  EXPECT_EQ(engine_gets(), (Frames{frames[3], frames[4]}));
  settle({&member, &a, &b});
  EXPECT_EQ(a.receive(), (Frames{frames[0], frames[2]}));
  EXPECT_EQ(b.receive(), Frames{frames[1]});
  EXPECT_EQ(port->counters().uplink_rx_packets, 3u);
}

TEST_F(Uplink, WhatFindsNoBufferOnTheSegmentIsCountedOnce) {
  make();
  Node a(dir, record_of("host", 1));
  turn();
  std::vector<TxFrame> lent(kPoolFrames);
  uint32_t count = 0;
  while (count < kPoolFrames - 2)
    count += member.port->acquire_tx(&lent[count], std::min(32u, kPoolFrames - 2 - count));
  for (int i = 0; i < 5; i++) ASSERT_TRUE(wire.deliver(roce_frame(mac_of(1), a.qpn(), 90)));
  EXPECT_TRUE(engine_gets().empty());
  settle({&member, &a});
  EXPECT_EQ(a.receive().size(), 2u);
  EXPECT_EQ(port->counters().uplink_rx_packets, 2u);
  EXPECT_EQ(port->counters().uplink_rx_dropped_no_room, 3u);
}

TEST_F(Uplink, SendsWhatProgramsSendToOthers) {
  make();
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const auto far = outbound(90);
  const auto longer = outbound(4000);
  a.turn();
  a.send(far);
  a.send(longer);
  a.send(roce_frame(mac_of(1), b.qpn(), 90));  // stays on the segment
  settle({&a, &member, &b});
  turn();
  EXPECT_EQ(on_the_wire(), (Frames{far, longer}));
  EXPECT_EQ(b.receive().size(), 1u);
}

TEST_F(Uplink, NewsOfNeighboursGoToEngineAndPrograms) {
  make();
  Node a(dir, record_of("host", 1));
  a.turn();
  a.send(outbound(90));  // makes contact
  settle({&a, &member});
  Arp reply;
  reply.operation = Arp::kReply;
  reply.sender_mac = kFarAway;
  reply.sender_ip = *parse_ip("10.0.0.77");
  std::vector<uint8_t> bytes(128);
  bytes.resize(encode_arp(bytes, {mac_of(1), kFarAway, 0}, reply));
  ASSERT_TRUE(wire.deliver(bytes));
  EXPECT_EQ(engine_gets(), Frames{bytes});
  settle({&member, &a});
  EXPECT_EQ(a.receive(), Frames{bytes});
}

TEST_F(Uplink, WhatIsNotFromTheHostDoesNotGoOut) {
  make();
  Node other(dir, record_of("other", 2));
  other.turn();
  other.send(outbound(90, mac_of(2)));
  settle({&other, &member});
  turn();
  EXPECT_TRUE(on_the_wire().empty());
  EXPECT_EQ(port->counters().uplink_tx_dropped_foreign, 1u);
}

TEST_F(Uplink, AFrameThatTheWireCannotCarryIsDroppedWithAName) {
  MemoryPort narrow{64, 1000};
  port.emplace(narrow, *member.port, mac_of(1), 0);
  Node a(dir, record_of("host", 1));
  a.turn();
  a.send(outbound(1001));
  a.send(outbound(1000));
  settle({&a, &member});
  turn();
  EXPECT_EQ(narrow.sent(), 1u);
  EXPECT_EQ(port->counters().uplink_tx_dropped_too_long, 1u);
}

TEST_F(Uplink, ProgramsWaitWhileTheWireTakesNothing) {
  make();
  Node a(dir, record_of("host", 1));
  a.turn();
  for (int i = 0; i < 40; i++) ASSERT_TRUE(a.send(outbound(500)));
  settle({&a, &member});
  wire.set_congested(true);
  turn();
  EXPECT_TRUE(on_the_wire().empty());
  wire.set_congested(false);
  port->set_silent(true);
  turn();
  EXPECT_TRUE(on_the_wire().empty());
  port->set_silent(false);
  turn();
  EXPECT_EQ(on_the_wire().size(), 40u) << "nothing was lost meanwhile";
}

TEST_F(Uplink, AProgramThatSendsMoreThanItsRateWaitsAndTheOthersDoNot) {
  make(80'000'000);  // 10 bytes a microsecond
  Node greedy(dir, record_of("host", 1)), modest(dir, record_of("host", 1));
  turn();
  greedy.turn();
  modest.turn();
  size_t greedy_sent = 0, modest_sent = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < 4; i++) greedy.send(outbound(1000));
    if (round % 20 == 0) modest.send(outbound(200));
    greedy.turn(microseconds(100));
    modest.turn(microseconds(100));
    turn(microseconds(100));
    for (const auto& frame : on_the_wire()) (frame.size() == 1000 ? greedy_sent : modest_sent)++;
  }
  EXPECT_EQ(modest_sent, size_t{kRounds / 20});
  EXPECT_NEAR(static_cast<double>(greedy_sent), kRounds * 100 * 10 / 1000.0, 60)
      << "one frame every 100 us, and a burst";
  EXPECT_GT(port->counters().uplink_tx_held, 0u);
}

TEST_F(Uplink, WhoSendsExactlyItsShareIsNotHeldBack) {
  make(80'000'000);  // 10 bytes a microsecond
  Node a(dir, record_of("host", 1));
  a.turn();
  a.send(outbound(60));  // makes contact
  settle({&a, &member});
  turn();
  turn(milliseconds(1000));  // its share is then the most that is kept: 50,000 bytes
  on_the_wire();
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 25; i++) ASSERT_TRUE(a.send(outbound(1000)));
    a.turn(microseconds(1));
    turn(microseconds(1));  // during which it earns nothing
  }
  EXPECT_EQ(on_the_wire().size(), 50u);
  EXPECT_EQ(port->counters().uplink_tx_held, 0u);
  a.send(outbound(60));
  a.turn(microseconds(1));
  turn(microseconds(1));
  EXPECT_EQ(port->counters().uplink_tx_held, 1u);
}

TEST_F(Uplink, ASlowRateIsKeptToo) {
  make(64'000);  // 8 bytes a millisecond
  Node a(dir, record_of("host", 1));
  turn();
  a.turn();
  size_t sent = 0;
  constexpr int kMilliseconds = 20'000;
  for (int i = 0; i < kMilliseconds * 10; i++) {
    if (i % 100 == 0) a.send(outbound(1000));
    a.turn(microseconds(100));
    turn(microseconds(100));  // during which less than a byte is earned
    sent += on_the_wire().size();
  }
  // A burst that is taken at once is paid for afterwards.
  EXPECT_NEAR(static_cast<double>(sent), kMilliseconds * 8 / 1000.0, Port::kMaxBurst) << "eight frames a second";
}

TEST_F(Uplink, ClaimsBeyondTheQuotaAreNobodys) {
  make();
  member.port->peers().set_blocks_max(1);
  Node a(dir, record_of("host", 1));
  const uint32_t first = a.qpn();
  const uint32_t second = a.port->take_block().value() << kQpnBlockBits | 7;
  turn();
  ASSERT_TRUE(wire.deliver(roce_frame(mac_of(1), first, 90)));
  ASSERT_TRUE(wire.deliver(roce_frame(mac_of(1), second, 90)));
  EXPECT_TRUE(engine_gets().empty());
  settle({&member, &a});
  EXPECT_EQ(a.receive().size(), 1u);
  EXPECT_EQ(member.port->counters().tx_dropped_nobody, 1u);
}

TEST_F(Uplink, WhateverComesOverTheWireEndsNothing) {
  make();
  Node a(dir, record_of("host", 1));
  const uint32_t qpn = a.qpn();
  turn();
  SeededRandom random{2026};
  size_t delivered = 0, kept = 0;
  for (int round = 0; round < 20000; round++) {
    auto frame = roce_frame(mac_of(1), qpn, 60 + random.below(300), static_cast<uint8_t>(round));
    // A valid frame with a few bytes changed, or cut off, in the part that decides where it goes.
    for (uint32_t i = random.below(4); i > 0; i--)
      frame[random.below(static_cast<uint32_t>(std::min<size_t>(64, frame.size())))] ^=
          static_cast<uint8_t>(1u << random.below(8));
    frame.resize(random.below(8) == 0 ? random.below(static_cast<uint32_t>(frame.size())) + 1 : frame.size());
    if (!wire.deliver(frame)) continue;
    delivered++;
    kept += engine_gets().size();
    if (round % 16 == 0) {
      settle({&member, &a});
      a.receive();
    }
  }
  EXPECT_GT(delivered, 19000u);
  EXPECT_GT(kept, 0u);
  EXPECT_GT(port->counters().uplink_rx_packets, delivered / 4);
}

}  // namespace
}  // namespace uroce::segment
