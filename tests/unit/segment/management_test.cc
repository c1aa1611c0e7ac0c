// Which programs get management datagrams for queue pair 1 of a host, when several programs are that host.
#include <gtest/gtest.h>

#include "bytes.h"
#include "node.h"
#include "segment/service_claims.h"
#include "segment/uplink_port.h"
#include "uroce/memory_port.h"

namespace uroce::segment {
namespace {

using namespace test;

constexpr uint16_t kReq = 0x10, kRej = 0x12, kRep = 0x13, kRtu = 0x14, kDrep = 0x16, kSidrReq = 0x17, kSidrRep = 0x18;
constexpr uint64_t kPort7174 = 0x0000000001061c06;
constexpr uint64_t kExactly = ~uint64_t{0};

void listen(Node& node, uint64_t service_id, uint64_t mask = kExactly) {
  std::string error;
  EXPECT_EQ(node.port->registration().listen({service_id, mask}, error), 0) << error;
}

/// A communication ID as the program draws it: the upper 12 bits are its block.
uint32_t id_of(Node& node) { return node.qpn() >> kQpnBlockBits << 20 | 0x4ea0; }

TEST(FrameAddress, IsReadFromLinuxFrames) {
  // The first bytes of rping's REQ and of the REP to it, from Linux with rxe.
  const char* const headers =
      "525400770001525400770002080045000134fbd840004011228ac0a84d03c0a84d02d87212b7012000006400ffff0000000180000000"
      "8001000000000001";
  const std::string padding(2 * (256 - 40) + 8, '0');
  const FrameAddress req = address_of_frame(uroce::test::from_hex(
      headers + std::string("010702030000000000000002a04e30d10010000000000000d1304ea0000000000000000001061c06") +
      padding));
  EXPECT_EQ(req.qpn, 1u);
  EXPECT_EQ(req.service_id, kPort7174);
  const FrameAddress rep = address_of_frame(uroce::test::from_hex(
      headers + std::string("010702030000000000000002a04e30d100130000000000007521b665d1304ea00000000000009f00") +
      padding));
  EXPECT_EQ(rep.qpn, 0xd1304eu) << "the upper bits of the ID d1304ea0";
  EXPECT_FALSE(rep.service_id);
}

TEST(FrameAddress, OfAShortDatagramIsQueuePairOne) {
  for (const size_t bytes : {54u, 58u, 62u, 70u, 101u}) {
    auto frame = cm_frame(mac_of(1), kReq, 0, kPort7174);
    frame.resize(bytes);
    const FrameAddress destination = address_of_frame(frame);
    EXPECT_EQ(destination.qpn, 1u) << bytes;
    EXPECT_FALSE(destination.service_id) << bytes;
  }
}

class Management : public testing::Test {
 protected:
  const TempDir dir;
  Node client{dir, record_of("host", 1)}, a{dir, record_of("host", 1)}, b{dir, record_of("host", 1)};
  /// The programs that receive a frame of the client's.
  std::string goes(const std::vector<uint8_t>& frame) {
    client.turn();
    client.send(frame);
    settle({&client, &a, &b});
    std::string who;
    if (a.receive() == Frames{frame}) who += "a";
    if (b.receive() == Frames{frame}) who += "b";
    return who;
  }
};

TEST_F(Management, ARequestReachesWhoeverListens) {
  listen(b, kPort7174);
  EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174)), "b");
  EXPECT_EQ(goes(cm_frame(mac_of(1), kSidrReq, 0, kPort7174)), "b");
  listen(a, 0x1000000000000000, 0xFFFFFFFFFFFFFF00);
  EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, 0x10000000000000A7)), "a") << "by the mask";
}

/// Of two that listen, the one with the narrower mask gets it, whichever program that is and whichever listened first.
TEST_F(Management, OfTwoMasksTheNarrowerDecides) {
  constexpr uint64_t kWide = 0xFFFFFFFFFFFF0000, kNarrow = 0xFFFFFFFFFFFFFF00;
  std::string error;
  for (Node* narrow : {&a, &b}) {
    Node* const wide = narrow == &a ? &b : &a;
    const std::string its = narrow == &a ? "a" : "b", others = narrow == &a ? "b" : "a";
    for (const bool first : {true, false}) {
      if (first) listen(*narrow, kPort7174, kNarrow);
      listen(*wide, kPort7174, kWide);
      listen(*wide, kPort7174 ^ 0x5500, kNarrow);  // as narrow as the other, for other services
      if (!first) listen(*narrow, kPort7174, kNarrow);
      EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174)), its) << first;
      EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174 ^ 0x03)), its) << first;
      EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174 ^ 0x5503)), others) << first;
      EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174 ^ 0x7700)), others) << "only the wide one";
      listen(*wide, kPort7174);
      EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174)), others) << "exactly that service";
      for (const Listening& listening :
           {Listening{kPort7174, kWide}, {kPort7174 ^ 0x5500, kNarrow}, {kPort7174, kExactly}})
        ASSERT_TRUE(wide->port->registration().unlisten(listening, error)) << error;
      ASSERT_TRUE(narrow->port->registration().unlisten({kPort7174, kNarrow}, error)) << error;
    }
  }
}

TEST_F(Management, AlsoIfItListensOnlyNow) {
  listen(b, kPort7174);
  EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174)), "b");
  std::string error;
  ASSERT_TRUE(b.port->registration().unlisten({kPort7174, kExactly}, error)) << error;
  listen(a, kPort7174);
  EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174)), "a");
}

TEST_F(Management, ARequestThatNobodyWantsReachesOneWhoSaysSo) {
  const auto request = cm_frame(mac_of(1), kReq, 0, kPort7174);
  const std::string first = goes(request);
  EXPECT_EQ(first.size(), 1u);
  EXPECT_EQ(goes(request), first) << "always the same";
}

TEST_F(Management, WhatNamesAConnectionReachesWhoDrewItsId) {
  for (const uint16_t attribute : {kRej, kRep, kRtu, kDrep, kSidrRep}) {
    EXPECT_EQ(goes(cm_frame(mac_of(1), attribute, id_of(a))), "a") << attribute;
    EXPECT_EQ(goes(cm_frame(mac_of(1), attribute, id_of(b))), "b") << attribute;
  }
  EXPECT_EQ(goes(cm_frame(mac_of(1), kRtu, id_of(a) ^ 0x80000000)), "") << "of nobody";
  EXPECT_EQ(client.port->counters().tx_dropped_nobody, 1u);
}

TEST_F(Management, AnAnswerFindsWhoHasDrawnAnIdJustNow) {
  client.turn();
  client.send(cm_frame(mac_of(1), kRtu, id_of(a)));
  // The last look into the directory is too recent for another one for the sake of a packet to a queue pair.
  client.turn(Peers::kReadForManagement);
  client.send(cm_frame(mac_of(1), kRep, id_of(b)));
  settle({&client, &a, &b});
  EXPECT_EQ(a.receive().size(), 1u);
  EXPECT_EQ(b.receive().size(), 1u);
}

TEST_F(Management, ARejectionOfWhatWasNotAnsweredReachesAllThatListen) {
  listen(a, kPort7174);
  EXPECT_EQ(goes(cm_frame(mac_of(1), kRej, 0)), "a");
  listen(b, kPort7174 + 1);
  EXPECT_EQ(goes(cm_frame(mac_of(1), kRej, 0)), "ab");
}

TEST_F(Management, AProgramThatWasKilledListensNoMore) {
  in_killed_child([&] {
    Node gone(dir, record_of("host", 1));
    listen(gone, kPort7174);
    gone.turn();
  });
  Node heir(dir, record_of("host", 1));
  listen(heir, kPort7174);
  client.turn();
  client.send(cm_frame(mac_of(1), kReq, 0, kPort7174));
  settle({&client, &heir});
  EXPECT_EQ(heir.receive().size(), 1u);
}

/// Its frames are received to the last, but nothing is sent to it any more.
TEST_F(Management, WhoLeavesWhileItsFramesLieThereWantsNothingMore) {
  const MacAddress group{{0x01, 0x00, 0x5e, 1, 2, 3}};
  Peers& known = client.port->peers();
  auto gone = std::make_unique<Node>(dir, record_of("host", 1));
  listen(*gone, kPort7174);
  std::string error;
  ASSERT_TRUE(gone->port->registration().update(
      [&](MemberRecord& record) {
        record.groups = {group};
        record.raw.macs = {mac_of(9)};
        record.raw.all = true;
      },
      error));
  client.turn();
  ASSERT_TRUE(client.send(roce_frame(mac_of(1), gone->qpn(), 100)));
  settle({&client, gone.get()});
  ASSERT_TRUE(gone->send(roce_frame(mac_of(1), client.qpn(), 3000)));
  known.refresh(true);
  Peer* const peer = known.listener(mac_of(1), kPort7174);
  ASSERT_TRUE(peer != nullptr && peer->lane && peer->in_group(group) && peer->takes_raw(mac_of(8)));
  ASSERT_EQ(known.raw_takers(), std::vector<Peer*>{peer});
  gone.reset();
  known.refresh(true);
  ASSERT_EQ(known.in_contact(), std::vector<Peer*>{peer}) << "its frame was not received";
  EXPECT_EQ(known.listener(mac_of(1), kPort7174), nullptr);
  EXPECT_FALSE(peer->in_group(group));
  EXPECT_FALSE(peer->takes_raw(mac_of(9)));
  EXPECT_TRUE(known.raw_takers().empty());
  listen(b, kPort7174);
  EXPECT_EQ(goes(cm_frame(mac_of(1), kReq, 0, kPort7174)), "b");
  EXPECT_EQ(client.receive().size(), 1u);
}

TEST(ManagementElsewhere, ARequestFindsAnotherHostAndWhatIsBeyondTheSegment) {
  const TempDir dir;
  Node client(dir, record_of("one", 1)), server(dir, record_of("two", 2)), same_host(dir, record_of("one", 1));
  Node uplink(dir, with_role(record_of("one", 1), Role::kUplink));
  listen(server, kPort7174);
  listen(same_host, kPort7174);
  const auto near = cm_frame(mac_of(2), kReq, 0, kPort7174), far = cm_frame(kFarAway, kReq, 0, kPort7174);
  client.turn();
  client.send(near);
  client.send(far);
  settle({&client, &server, &same_host, &uplink});
  EXPECT_EQ(server.receive(), Frames{near});
  EXPECT_EQ(uplink.receive(), Frames{far});
  EXPECT_TRUE(same_host.receive().empty());
}

TEST(ManagementElsewhere, AStationTakesAllForItsMac) {
  const TempDir dir;
  Node program(dir, record_of("host", 1)), station(dir, with_role(record_of("app", 2), Role::kStation));
  const Frames frames{cm_frame(mac_of(2), kReq, 0, kPort7174), cm_frame(mac_of(2), kRtu, 0x00000123),
                      cm_frame(mac_of(2), kRtu, 0x12345678), cm_frame(mac_of(2), kRej, 0)};
  program.turn();
  for (const auto& frame : frames) program.send(frame);
  settle({&program, &station});
  EXPECT_EQ(station.receive(), frames);
}

TEST(ManagementFromTheWire, ReachesProgramsOrTheUplinkItself) {
  const TempDir dir;
  MemoryPort wire{64, 4096 + 128};
  Node member(dir, with_role(record_of("host", 1), Role::kUplink));
  UplinkPort port(wire, *member.port, mac_of(1), 0);
  Node idle(dir, record_of("host", 1)), server(dir, record_of("host", 1));
  const auto engine_gets = [&](const std::vector<uint8_t>& frame) {
    member.turn();
    port.on_turn(member.now);
    EXPECT_TRUE(wire.deliver(frame));
    RxFrame frames[Port::kMaxBurst];
    const uint32_t count = port.receive(frames, Port::kMaxBurst);
    port.release_rx(frames, count);
    settle({&member, &idle, &server});
    return count;
  };
  member.turn();
  const auto request = cm_frame(mac_of(1), kReq, 0, kPort7174);
  EXPECT_EQ(engine_gets(request), 1u) << "which rejects it, because nobody listens";
  EXPECT_EQ(engine_gets(cm_frame(mac_of(1), kRej, 0)), 1u);
  listen(server, kPort7174);
  EXPECT_EQ(engine_gets(request), 0u);
  EXPECT_EQ(server.receive(), Frames{request});
  const auto rtu = cm_frame(mac_of(1), kRtu, id_of(server)), rej = cm_frame(mac_of(1), kRej, 0);
  EXPECT_EQ(engine_gets(rtu), 0u);
  EXPECT_EQ(engine_gets(rej), 0u);
  EXPECT_EQ(server.receive(), (Frames{rtu, rej}));
  EXPECT_TRUE(idle.receive().empty());
  EXPECT_EQ(engine_gets(cm_frame(mac_of(1), kRtu, id_of(server) ^ 0x80000000)), 1u) << "which says that nobody has it";
}

/// A program takes its numbers and sends a request; the answer comes before the uplink has looked again, and must not
/// be refused.
TEST(ManagementFromTheWire, WhoeverMayHaveTakenTheIdJustNowIsNotGone) {
  const TempDir dir;
  MemoryPort wire{64, 4096 + 128};
  Node member(dir, with_role(record_of("host", 1), Role::kUplink));
  UplinkPort port(wire, *member.port, mac_of(1), 0);
  Node late(dir, record_of("host", 1));
  const auto engine_gets = [&](const std::vector<uint8_t>& frame, Duration passed) {
    member.now = member.now + passed;
    port.on_turn(member.now);
    EXPECT_TRUE(wire.deliver(frame));
    RxFrame frames[Port::kMaxBurst];
    const uint32_t count = port.receive(frames, Port::kMaxBurst);
    port.release_rx(frames, count);
    return count;
  };
  EXPECT_EQ(engine_gets(cm_frame(mac_of(1), kRtu, 0x12345678), milliseconds(3)), 1u)
      << "nobody has it, and that is sure";
  const auto answer = cm_frame(mac_of(1), kRep, id_of(late));
  EXPECT_EQ(engine_gets(answer, microseconds(10)), 0u) << "nobody was known to have it a moment ago";
  EXPECT_EQ(engine_gets(answer, milliseconds(3)), 0u);
  settle({&member, &late});
  EXPECT_EQ(late.receive().back(), answer);
}

TEST(ServiceClaims, OneMemberHasAServiceUntilItGoes) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1)), other(dir, record_of("other", 2));
  const auto claims = [](Node& node) -> ServiceClaims& { return node.port->registration().services(); };
  EXPECT_TRUE(claims(a).take(kPort7174));
  EXPECT_TRUE(claims(a).take(kPort7174)) << "it has it";
  EXPECT_FALSE(claims(b).take(kPort7174));
  EXPECT_TRUE(claims(b).take(kPort7174 + 1));
  EXPECT_TRUE(claims(other).take(kPort7174)) << "another host";
  claims(a).give_back(kPort7174);
  EXPECT_TRUE(claims(b).take(kPort7174));
  EXPECT_TRUE(claims(b).take(0xFFFFFFFFFFFFFFFE)) << "as large as they come";
  EXPECT_FALSE(claims(a).take(0xFFFFFFFFFFFFFFFE));
  in_killed_child([&] {
    Node gone(dir, record_of("host", 1));
    if (!gone.port->registration().services().take(4711)) _exit(1);
  });
  EXPECT_TRUE(claims(a).take(4711)) << "whoever had it was killed";
}

}  // namespace
}  // namespace uroce::segment
