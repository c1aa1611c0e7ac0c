// Multicast on a segment: frames of a group reach the programs that want it, stations, and the ways out.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bytes.h"
#include "node.h"
#include "segment/uplink_port.h"
#include "uroce/memory_port.h"

namespace uroce::segment {
namespace {

using namespace test;

constexpr MacAddress kGroup{{0x01, 0x00, 0x5e, 1, 2, 3}};
constexpr MacAddress kGroup6{{0x33, 0x33, 0, 2, 0, 3}};
constexpr uint32_t kToAGroup = 0xFFFFFF;
// IGMPv3: which groups are joined?
const char* const kQuery =
    "01005e000001525400770009080046c00024123400000102242dc0a84d09e0000001940400001164ec1e00000000027d0000";

void want(Node& node, const MacAddress& group, bool wanted = true) {
  std::string error;
  EXPECT_TRUE(node.port->registration().want_group(group, wanted, error)) << error;
}

TEST(Multicast, ReachesTheProgramsThatWantIt) {
  const TempDir dir;
  Node sender(dir, record_of("host", 1)), a(dir, record_of("host", 1)), b(dir, record_of("other", 2));
  Node idle(dir, record_of("host", 1));
  want(a, kGroup);
  want(b, kGroup);
  want(b, kGroup6);
  const auto v4 = roce_frame(kGroup, kToAGroup, 300), v6 = roce_frame(kGroup6, kToAGroup, 2000, 9);
  sender.turn();
  sender.send(v4);
  sender.send(v6);
  settle({&sender, &a, &b, &idle});
  EXPECT_EQ(a.receive(), Frames{v4});
  EXPECT_EQ(b.receive(), (Frames{v4, v6}));
  EXPECT_TRUE(idle.receive().empty());
  want(b, kGroup, false);
  sender.turn();
  sender.send(v4);
  settle({&sender, &a, &b});
  EXPECT_EQ(a.receive(), Frames{v4});
  EXPECT_TRUE(b.receive().empty());
  EXPECT_EQ(sender.port->counters().tx_dropped_nobody, 0u);
}

/// With hardly any buffers left one member gets the frame; the copies for the others are counted.
TEST(Multicast, CopiesForWhichThereIsNoBufferAreCounted) {
  const TempDir dir;
  Node sender(dir, record_of("host", 1)), a(dir, record_of("host", 1)), b(dir, record_of("host", 1)),
      c(dir, record_of("host", 1));
  for (Node* node : {&a, &b, &c}) want(*node, kGroup);
  sender.turn();
  std::vector<TxFrame> lent(kPoolFrames);
  uint32_t count = 0;
  while (count + FramePool::kReserve <= kPoolFrames)
    count += sender.port->acquire_tx(&lent[count], std::min(Port::kMaxBurst, kPoolFrames - count));
  ASSERT_TRUE(sender.send(roce_frame(kGroup, kToAGroup, 300)));
  settle({&sender, &a, &b, &c});
  EXPECT_EQ(a.receive().size() + b.receive().size() + c.receive().size(), 1u);
  EXPECT_EQ(sender.port->counters().tx_dropped_full, 2u);
  sender.port->send(lent.data(), count);  // all of them unused
  ASSERT_TRUE(sender.send(roce_frame(kGroup, kToAGroup, 300)));
  settle({&sender, &a, &b, &c});
  EXPECT_EQ(a.receive().size() + b.receive().size() + c.receive().size(), 3u);
  EXPECT_EQ(sender.port->counters().tx_dropped_full, 2u);
}

TEST(Multicast, LeavesTheSegmentOnce) {
  const TempDir dir;
  Node sender(dir, record_of("host", 1)), a(dir, record_of("host", 1));
  Node uplink(dir, with_role(record_of("host", 1), Role::kUplink)),
      station(dir, with_role(record_of("app", 2), Role::kStation));
  want(a, kGroup);
  const auto frame = roce_frame(kGroup, kToAGroup, 300);
  sender.turn();
  sender.send(frame);
  settle({&sender, &a, &uplink, &station});
  for (Node* node : {&a, &uplink, &station}) EXPECT_EQ(node->receive(), Frames{frame});
}

TEST(Multicast, FromTheWireReachesProgramsToo) {
  const TempDir dir;
  MemoryPort wire{64, 4096 + 128};
  Node member(dir, with_role(record_of("host", 1), Role::kUplink));
  UplinkPort port(wire, *member.port, mac_of(1), 0);
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1)), idle(dir, record_of("host", 1));
  const auto engine_gets = [&](const std::vector<uint8_t>& frame) {
    member.turn();
    port.on_turn(member.now);
    EXPECT_TRUE(wire.deliver(frame));
    RxFrame frames[Port::kMaxBurst];
    const uint32_t count = port.receive(frames, Port::kMaxBurst);
    port.release_rx(frames, count);
    settle({&member, &a, &b, &idle});
    return count;
  };
  member.turn();
  const auto frame = roce_frame(kGroup, kToAGroup, 1000);
  EXPECT_EQ(engine_gets(frame), 1u) << "and drops it: nobody wants it";
  want(a, kGroup);
  want(b, kGroup);
  const auto query = uroce::test::from_hex(kQuery);
  EXPECT_EQ(engine_gets(query), 1u);
  EXPECT_EQ(a.receive(), Frames{query}) << "each program answers for its groups";
  EXPECT_EQ(b.receive(), Frames{query});
  EXPECT_EQ(engine_gets(frame), 0u);
  EXPECT_EQ(a.receive(), Frames{frame});
  EXPECT_EQ(b.receive(), Frames{frame});
  EXPECT_TRUE(idle.receive().empty());
}

TEST(Multicast, ReportsOfProgramsReachTheWire) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), uplink(dir, with_role(record_of("host", 1), Role::kUplink));
  // An IGMPv3 report of 239.1.2.3.
  const auto report = uroce::test::from_hex(
      "01005e000016027500000001080046c00028000040000102f64ec0a84d02e0000016940400002200e8f90000000104000000"
      "ef010203000000000000");
  a.turn();
  a.send(report);
  settle({&a, &uplink});
  EXPECT_EQ(uplink.receive(), Frames{report});
}

TEST(Multicast, AMemberThatDoesNotKeepUpHoldsTheSenderBack) {
  const TempDir dir;
  Node sender(dir, record_of("host", 1)), member(dir, record_of("host", 1)), other(dir, record_of("host", 1));
  want(member, kGroup);
  want(other, kGroup6);
  const auto frame = roce_frame(kGroup, kToAGroup, 2000);
  const auto congested = [&](const MacAddress& group) { return sender.port->congested(group, kToAGroup); };
  sender.turn();
  for (int i = 0; i < 1000 && !congested(kGroup); i++) sender.send(frame);
  EXPECT_TRUE(congested(kGroup));
  EXPECT_EQ(sender.port->counters().tx_dropped_full, 0u) << "it says so before anything is lost";
  sender.send(roce_frame(kGroup6, kToAGroup, 2000));
  EXPECT_FALSE(congested(kGroup6)) << "a group without that member";
  settle({&member, &sender});
  while (!member.receive().empty()) {
  }
  EXPECT_FALSE(congested(kGroup));
}

TEST(Multicast, AProgramHasOnlySoManyGroups) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  std::string error;
  for (size_t i = 0; i < kGroupsMax; i++) {
    const auto low = static_cast<uint8_t>(i);
    ASSERT_TRUE(a.port->registration().want_group({{1, 0, 0x5e, 0, 1, low}}, true, error)) << error;
  }
  EXPECT_FALSE(a.port->registration().want_group(kGroup, true, error));
  EXPECT_EQ(error, "more than 256 multicast groups of one program: it gets nothing of this one");
  EXPECT_TRUE(a.port->registration().want_group({{1, 0, 0x5e, 0, 1, 0}}, false, error));
  EXPECT_TRUE(a.port->registration().want_group(kGroup, true, error));
}

}  // namespace
}  // namespace uroce::segment
