// Members that are no programs: stations, uplinks and bridges, and which frames find them.
#include <gtest/gtest.h>

#include "node.h"
#include "packet/host_frames.h"

namespace uroce::segment {
namespace {

using namespace test;

const MacAddress kEverybody{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

std::vector<uint8_t> arp(uint16_t operation, const MacAddress& to, const MacAddress& from, const char* asker,
                         const char* target) {
  Arp message;
  message.operation = operation;
  message.sender_mac = from;
  message.sender_ip = *parse_ip(asker);
  message.target_ip = *parse_ip(target);
  std::vector<uint8_t> bytes(128);
  bytes.resize(encode_arp(bytes, {to, from, 0}, message));
  return bytes;
}

/// Two bridges alone are the ends of a cable: frames wait for room. With other members there, no frame waits.
TEST(Roles, ABridgeThatMeetsOneMemberOnlyWaitsForIt) {
  const TempDir dir;
  Node one(dir, with_role(record_of("one", 1), Role::kBridge)), two(dir, with_role(record_of("two", 2), Role::kBridge));
  one.turn();
  EXPECT_FALSE(one.port->queues_by_destination());
  const auto fill = [&] {
    uint32_t sent = 0;
    while (sent < 2000 && one.send(roce_frame(kFarAway, 0x17, 200))) sent++;
    return sent;
  };
  one.send(roce_frame(kFarAway, 0x17, 200));
  settle({&one, &two});
  const uint32_t sent = fill();
  EXPECT_LT(sent, 1000u);
  EXPECT_EQ(one.port->counters().tx_dropped_full, 0u);
  EXPECT_FALSE(one.port->tx_pending()) << "they wait before the port";
  EXPECT_FALSE(two.receive().empty());
  two.turn();
  EXPECT_TRUE(one.send(roce_frame(kFarAway, 0x17, 200)));
  fill();
  Node third(dir, record_of("host", 3));
  one.turn(milliseconds(600));
  EXPECT_TRUE(one.send(roce_frame(mac_of(3), third.qpn(), 200))) << "not for another's receiver";
}

TEST(Roles, AStationGetsEveryFrameForItsMac) {
  const TempDir dir;
  Node program(dir, record_of("host", 1)), station(dir, with_role(record_of("app", 2), Role::kStation));
  const Frames frames{roce_frame(mac_of(2), 0x123456, 300), roce_frame(mac_of(2), 1, 300),
                      roce_frame(mac_of(2), 0, 60)};
  program.turn();
  for (const auto& frame : frames) program.send(frame);
  settle({&program, &station});
  EXPECT_EQ(station.receive(), frames);
}

/// A lost station takes all numbers of its MAC with it. A lost uplink is not reported: the traffic through it goes on
/// when it is back.
TEST(Roles, WhoIsToldOfALoss) {
  const TempDir dir;
  Node program(dir, record_of("host", 1));
  auto station = std::make_unique<Node>(dir, with_role(record_of("app", 2), Role::kStation));
  auto uplink = std::make_unique<Node>(dir, with_role(record_of("host", 1), Role::kUplink));
  std::vector<LostMember> lost;
  program.port->on_lost([&](const LostMember& member, Instant) { lost.push_back(member); });
  program.turn();
  for (const MacAddress& to : {mac_of(2), kFarAway}) program.send(roce_frame(to, 0x123456, 300));
  settle({&program, station.get(), uplink.get()});
  EXPECT_EQ(program.port->counters().contacts, 2u);
  station.reset();
  uplink.reset();
  for (int i = 0; i < 10; i++) program.turn(milliseconds(100));
  EXPECT_EQ(program.port->counters().peers_lost, 2u);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].mac, mac_of(2));
  EXPECT_TRUE(lost[0].drew(0) && lost[0].drew(0xFFFFFFFF));
}

/// A station claims a MAC for itself alone, unchecked. Its end does not end other members that have it, too.
TEST(Roles, AStationWithTheMacOfOthersTakesNobodyWithIt) {
  const TempDir dir;
  for (const uint8_t mac : {uint8_t{1}, uint8_t{2}}) {
    Node program(dir, record_of("host", 1)), other(dir, record_of("other", 2));
    auto station = std::make_unique<Node>(dir, with_role(record_of("false", mac), Role::kStation));
    std::vector<LostMember> lost;
    program.port->on_lost([&](const LostMember& member, Instant) { lost.push_back(member); });
    program.turn();
    station->turn();
    station->send(roce_frame(mac_of(1), program.qpn(), 300));
    settle({&program, &other, station.get()});
    program.receive();
    station.reset();
    for (int i = 0; i < 10; i++) program.turn(milliseconds(100));
    EXPECT_EQ(program.port->counters().peers_lost, 1u) << "there was contact";
    for (const LostMember& member : lost) {
      EXPECT_FALSE(member.drew(program.qpn() >> kQpnBlockBits << 20));
      EXPECT_FALSE(member.drew(other.qpn() >> kQpnBlockBits << 20));
    }
  }
}

TEST(Roles, AStationAndAProgramReachEachOther) {
  const TempDir dir;
  Node program(dir, record_of("host", 1)), station(dir, with_role(record_of("app", 2), Role::kStation));
  const auto frame = roce_frame(mac_of(1), program.qpn(), 90);
  station.turn();
  station.send(frame);
  station.send(arp(Arp::kRequest, kEverybody, mac_of(2), "10.0.0.2", "10.0.0.1"));
  settle({&station, &program});
  EXPECT_EQ(program.receive(), Frames{frame});
  const Frames answer = station.receive();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(decode_arp(*decode_link(answer[0]))->sender_mac, mac_of(1)) << "from the directory";
}

/// Questions for whose answers there is no room are asked again; the answers kept are the first ones.
TEST(Roles, AnswersThatWaitAreNotWrittenOver) {
  const TempDir dir;
  Node program(dir, record_of("host", 1));
  std::vector<std::unique_ptr<Node>> others;
  for (uint8_t i = 2; i < 32; i++) others.push_back(std::make_unique<Node>(dir, record_of("h" + std::to_string(i), i)));
  for (int life = 0; life < 3; life++) {
    program.turn();
    for (uint8_t i = 2; i < 32; i++)
      program.send(arp(Arp::kRequest, kEverybody, mac_of(1), "10.0.0.1", ("10.0.0." + std::to_string(i)).c_str()));
    uint8_t next = 2;
    for (Frames got = program.receive(); !got.empty(); got = program.receive()) {
      for (const auto& answer : got) {
        ASSERT_EQ(decode_arp(*decode_link(answer))->sender_mac, mac_of(next)) << life;
        next++;
      }
    }
    EXPECT_GT(next, 2);
    EXPECT_LT(next, 32) << "there was room for all";
    EXPECT_FALSE(program.port->has_frames());
  }
}

TEST(Roles, AQuestionThatNobodyCanAnswerGoesToStationsOnly) {
  const TempDir dir;
  Node asks(dir, record_of("host", 1)), program(dir, record_of("host", 1));
  Node station(dir, with_role(record_of("app", 2), Role::kStation)),
      uplink(dir, with_role(record_of("host", 1), Role::kUplink));
  const auto question = arp(Arp::kRequest, kEverybody, mac_of(1), "10.0.0.1", "10.0.0.77");
  asks.turn();
  asks.send(question);
  settle({&asks, &program, &station, &uplink});
  EXPECT_EQ(station.receive(), Frames{question});
  EXPECT_EQ(uplink.receive(), Frames{question});
  EXPECT_TRUE(program.receive().empty());
  EXPECT_TRUE(asks.warnings.empty()) << "somebody may know";
}

TEST(Roles, AnAnswerReachesWhoeverMayHaveAsked) {
  const TempDir dir;
  Node asks(dir, record_of("host", 1)), idle(dir, record_of("host", 1));
  Node uplink(dir, with_role(record_of("host", 1), Role::kUplink));
  asks.turn();
  asks.send(arp(Arp::kRequest, kEverybody, mac_of(1), "10.0.0.1", "10.0.0.77"));
  settle({&asks, &idle, &uplink});
  uplink.receive();
  const auto answer = arp(Arp::kReply, mac_of(1), kFarAway, "10.0.0.77", "10.0.0.1");
  const auto moved = arp(Arp::kReply, kEverybody, kFarAway, "10.0.0.77", "10.0.0.77");
  uplink.send(answer);
  uplink.send(moved);
  settle({&uplink, &asks, &idle});
  EXPECT_EQ(asks.receive(), (Frames{answer, moved}));
  EXPECT_TRUE(idle.receive().empty());
}

TEST(Roles, WhatIsForNobodyOnTheSegmentGoesOut) {
  const TempDir dir;
  Node program(dir, record_of("host", 1)), uplink(dir, with_role(record_of("host", 1), Role::kUplink));
  const auto frame = roce_frame(kFarAway, 0x17, 1000);
  program.turn();
  program.send(frame);
  settle({&program, &uplink});
  EXPECT_EQ(uplink.receive(), Frames{frame});
  EXPECT_EQ(program.port->counters().tx_dropped_nobody, 0u);
}

TEST(Roles, TheUplinkOfTheOwnHostComesFirst) {
  const TempDir dir;
  Node program(dir, record_of("one", 1)), own(dir, with_role(record_of("one", 1), Role::kUplink));
  Node other(dir, with_role(record_of("two", 2), Role::kUplink));
  const auto frame = roce_frame(kFarAway, 0x17, 1000);
  program.turn();
  program.send(frame);
  settle({&program, &own, &other});
  EXPECT_EQ(own.receive(), Frames{frame});
  EXPECT_TRUE(other.receive().empty());
}

TEST(Roles, ForAQueuePairThatNoProgramHasNobodyIsAsked) {
  const TempDir dir;
  Node program(dir, record_of("host", 1)), uplink(dir, with_role(record_of("host", 1), Role::kUplink));
  const uint32_t qpn = program.qpn();
  uplink.turn();
  uplink.send(roce_frame(mac_of(1), qpn ^ 0x800000, 200));
  uplink.send(roce_frame(mac_of(1), qpn, 200));
  settle({&uplink, &program});
  EXPECT_EQ(program.receive().size(), 1u);
  EXPECT_EQ(uplink.port->counters().tx_dropped_nobody, 1u);
}

TEST(Roles, TwoBridgesBothGetWhatIsForNobody) {
  const TempDir dir;
  Node program(dir, record_of("host", 1));
  Node left(dir, with_role(record_of("left", 8), Role::kBridge)),
      right(dir, with_role(record_of("right", 9), Role::kBridge));
  const auto frame = roce_frame(kFarAway, 0x17, 700);
  program.turn();
  program.send(frame);
  settle({&program, &left, &right});
  EXPECT_EQ(left.receive(), Frames{frame});
  EXPECT_EQ(right.receive(), Frames{frame});
}

TEST(Roles, AFrameForNoQueuePairFindsWhoHasJustCome) {
  const TempDir dir;
  Node bridge(dir, with_role(record_of("bridge", 8), Role::kBridge));
  bridge.turn();
  Node program(dir, record_of("host", 1));
  const auto frame = roce_frame(mac_of(1), 0, 60);
  bridge.send(frame);
  settle({&bridge, &program});
  EXPECT_EQ(program.receive(), Frames{frame});
}

TEST(Roles, AnAnswerForSomebodyBehindABridgeIsForHim) {
  const TempDir dir;
  Node program(dir, record_of("host", 1)), bridge(dir, with_role(record_of("bridge", 8), Role::kBridge));
  bridge.turn();
  bridge.send(arp(Arp::kRequest, kEverybody, kFarAway, "10.0.0.77", "10.0.0.1"));
  const Frames answers = bridge.receive();
  ASSERT_EQ(answers.size(), 1u);
  const auto link = decode_link(answers[0]);
  EXPECT_EQ(link->dst_mac, kFarAway);
  EXPECT_EQ(link->src_mac, mac_of(1));
  EXPECT_EQ(decode_arp(*link)->target_mac, kFarAway);
}

TEST(Roles, AHostAnnouncesItselfOnce) {
  const TempDir dir;
  Node program(dir, record_of("host", 1)), uplink(dir, with_role(record_of("host", 1), Role::kUplink));
  program.turn();
  program.send(arp(Arp::kRequest, kEverybody, mac_of(1), "10.0.0.1", "10.0.0.1"));
  settle({&program, &uplink});
  EXPECT_TRUE(uplink.receive().empty());
}

TEST(Roles, ProgramsHearWhetherTheirUplinkIsUp) {
  const TempDir dir;
  Node program(dir, record_of("host", 1));
  const auto look = [&] {
    program.turn(milliseconds(300));
    return program.port->uplink().up();
  };
  EXPECT_FALSE(look());
  {
    Node uplink(dir, with_role(record_of("host", 1), Role::kUplink));
    EXPECT_TRUE(look());
    std::string error;
    ASSERT_TRUE(uplink.port->registration().update([](MemberRecord& record) { record.link_up = false; }, error))
        << error;
    EXPECT_FALSE(look());
    ASSERT_TRUE(uplink.port->registration().update([](MemberRecord& record) { record.link_up = true; }, error))
        << error;
    EXPECT_TRUE(look());
  }
  EXPECT_FALSE(look()) << "it has left";
  in_killed_child([&] {
    Node uplink(dir, with_role(record_of("host", 1), Role::kUplink));
    if (!look()) _exit(1);
  });
  EXPECT_FALSE(look()) << "it was killed";
}

TEST(Roles, ProgramsFollowTheAddressesOfTheirUplink) {
  const TempDir dir;
  Node program(dir, record_of("host", 1));
  const auto looks = [&] {
    program.turn(milliseconds(300));
    return program.port->uplink().take_news();
  };
  EXPECT_FALSE(looks());
  MemberRecord bridge = with_role(record_of("other", 2), Role::kBridge);
  bridge.mac = mac_of(1);
  const Node no_uplink(dir, bridge);
  EXPECT_FALSE(looks());
  Node uplink(dir, with_role(record_of("host", 1), Role::kUplink));
  EXPECT_TRUE(looks());
  EXPECT_FALSE(looks());
  EXPECT_EQ(program.port->uplink().addresses(), record_of("host", 1).addresses);
  std::string error;
  const std::vector<LocalAddress> other = record_of("host", 9).addresses;
  ASSERT_TRUE(uplink.port->registration().update([&](MemberRecord& record) { record.addresses = other; }, error))
      << error;
  EXPECT_TRUE(looks());
  EXPECT_FALSE(looks());
  EXPECT_EQ(program.port->uplink().addresses(), other);
}

TEST(Roles, AnotherUplinkTakesOverFromOneThatIsGone) {
  const TempDir dir;
  Node program(dir, record_of("host", 1));
  const auto frame = roce_frame(kFarAway, 0x17, 1000);
  for (int i = 0; i < 3; i++) {
    Node uplink(dir, with_role(record_of("host", 1), Role::kUplink));
    program.turn(milliseconds(300));
    program.send(frame);
    settle({&program, &uplink});
    EXPECT_EQ(uplink.receive(), Frames{frame}) << i;
  }
  program.turn(milliseconds(300));
  program.send(frame);
  EXPECT_EQ(program.port->counters().tx_dropped_nobody, 1u) << "nobody is there any more";
}

}  // namespace
}  // namespace uroce::segment
