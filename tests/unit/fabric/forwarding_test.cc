// Where frames go: ECMP, learning, flooding, ports that go down; and what priority they have.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "rig.h"

namespace uroce::fabric::test {
namespace {

/// The port that a flow leaves by; the frame is removed again.
PortId port_of(Rig& rig, const Bytes& frame, PortId from = 0) {
  rig.send(from, frame);
  PortId found = 0xffff;
  for (PortId port = 0; port < rig.fabric->port_count(); port++) {
    if (rig.take(port).empty()) continue;
    EXPECT_EQ(found, 0xffff);
    found = port;
  }
  return found;
}

constexpr unsigned kFlows = 4096;
const std::vector<PortId> kUplinks = {1, 2, 3, 4};

/// The port of each flow to host 9, which all four uplinks reach.
std::vector<PortId> paths(Rig& rig) {
  EXPECT_TRUE(rig.fabric->add_route(host(9), kUplinks));
  std::vector<PortId> result;
  for (unsigned flow = 0; flow < kFlows; flow++) {
    result.push_back(port_of(rig, frame_bytes({.to = 9, .udp_src_port = static_cast<uint16_t>(0xC000 + flow)})));
  }
  return result;
}

TEST(Ecmp, SpreadsFlowsEvenlyAndKeepsThem) {
  Rig rig(ports(5));
  const std::vector<PortId> first = paths(rig);
  std::map<PortId, unsigned> count;
  for (const PortId port : first) count[port]++;
  ASSERT_EQ(count.size(), 4u);
  // Binomial: sigma is 27.7.
  for (const auto& [port, flows] : count) EXPECT_NEAR(flows, kFlows / 4.0, 4 * 27.7) << port;
  EXPECT_EQ(paths(rig), first);
}

TEST(Ecmp, AllPacketsOfAFlowWhateverTheyCarry) {
  Rig rig(ports(5));
  ASSERT_TRUE(rig.fabric->add_route(host(9), kUplinks));
  const PortId path = port_of(rig, frame_bytes({.to = 9}));
  EXPECT_EQ(port_of(rig, frame_bytes({.to = 9, .bytes = 300, .psn = 7, .qp = 99})), path);
  EXPECT_EQ(port_of(rig, frame_bytes({.to = 9, .priority = 5, .ecn = Ecn::kMarked})), path);
}

TEST(Ecmp, SwitchesChooseIndependently) {
  Rig one(ports(5), 1);
  Rig other(ports(5), 2);
  const std::vector<PortId> a = paths(one);
  const std::vector<PortId> b = paths(other);
  std::map<std::pair<PortId, PortId>, unsigned> pairs;
  for (unsigned i = 0; i < kFlows; i++) pairs[{a[i], b[i]}]++;
  ASSERT_EQ(pairs.size(), 16u);
  for (const auto& [pair, flows] : pairs) EXPECT_NEAR(flows, kFlows / 16.0, 5 * 15.5);
}

TEST(Ecmp, OneBitOfAnyFieldMatters) {
  Rig rig(ports(5));
  for (const bool ipv6 : {false, true}) {
    const FrameSpec spec{.to = 9, .ipv6 = ipv6};
    Bytes frame = frame_bytes(spec);
    const uint64_t before = flow_hash(frame, inspect(frame), 7);
    const size_t begin = ipv6 ? 14 + 8 : 14 + 12;
    const size_t end = ipv6 ? 14 + 40 + 4 : 14 + 20 + 4;
    std::set<uint64_t> seen{before};
    for (size_t bit = begin * 8; bit < end * 8; bit++) {
      frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ (1u << (bit % 8)));
      EXPECT_TRUE(seen.insert(flow_hash(frame, inspect(frame), 7)).second) << bit;
      frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ (1u << (bit % 8)));
    }
    EXPECT_NE(flow_hash(frame, inspect(frame), 8), before);
  }
}

TEST(Ecmp, FragmentsStayTogether) {
  Bytes frame = frame_bytes({});
  const auto hash = [&frame] { return flow_hash(frame, inspect(frame), 7); };
  frame[20] = 0x20;  // more fragments
  const uint64_t first = hash();
  frame[20] = 0;
  frame[21] = 100;    // a later one: in place of the ports it has payload
  frame[34] ^= 0xff;  //
  EXPECT_EQ(hash(), first);
}

TEST(Ecmp, APortThatGoesDownMovesOnlyItsOwnFlows) {
  Rig rig(ports(5));
  const std::vector<PortId> before = paths(rig);
  rig.fabric->set_port_up(3, false, rig.now);
  const std::vector<PortId> during = paths(rig);
  std::map<PortId, unsigned> moved;
  for (unsigned i = 0; i < kFlows; i++) {
    if (before[i] == 3) {
      moved[during[i]]++;
    } else {
      EXPECT_EQ(during[i], before[i]);
    }
  }
  EXPECT_EQ(moved.size(), 3u);  // and not all to the same one
  for (const auto& [port, flows] : moved) EXPECT_NEAR(flows, kFlows / 12.0, 5 * 16);
  rig.fabric->set_port_up(3, true, rig.now);
  EXPECT_EQ(paths(rig), before);
  for (const PortId port : kUplinks) rig.fabric->set_port_up(port, false, rig.now);
  rig.send({.to = 9});
  EXPECT_EQ(rig.drops(0, Drop::kPortDown), 1u);
}

TEST(Routes, RefusesWhatIsNotThere) {
  Rig rig(ports(2));
  const PortId beyond = 2;
  EXPECT_FALSE(rig.fabric->add_route(host(1), {}));
  EXPECT_FALSE(rig.fabric->add_route(host(1), {&beyond, 1}));
  const std::vector<PortId> many(kMaxGroupPorts + 1, 1);
  EXPECT_FALSE(rig.fabric->add_route(host(1), many));
  EXPECT_EQ(port_of(rig, frame_bytes({})), 1);  // the old entry stays
}

TEST(Routes, ThousandsOfThem) {
  Rig rig(ports(8));
  for (unsigned n = 100; n < 5000; n++) {
    const auto port = static_cast<PortId>(1 + n % 7);
    ASSERT_TRUE(rig.fabric->add_route(host(n), {&port, 1}));
  }
  for (unsigned n = 100; n < 5000; n++) ASSERT_EQ(port_of(rig, frame_bytes({.to = n})), 1 + n % 7);
  const PortId moved = 7;
  ASSERT_TRUE(rig.fabric->add_route(host(100), {&moved, 1}));
  EXPECT_EQ(port_of(rig, frame_bytes({.to = 100})), 7);
}

TEST(Learning, FloodsUntilItKnows) {
  Rig rig(ports(4));
  const FrameSpec there{.from = 50, .to = 51};
  const FrameSpec back{.from = 51, .to = 50};
  rig.send(0, frame_bytes(there));
  for (PortId port = 1; port < 4; port++) EXPECT_EQ(rig.take(port), frame_bytes(there)) << port;
  EXPECT_EQ(rig.take(0), Bytes{});
  EXPECT_EQ(rig.fabric->counters(0).flooded, 1u);
  EXPECT_EQ(rig.fabric->counters(0).flood_copies, 2u);
  EXPECT_EQ(port_of(rig, frame_bytes(back), 2), 0);
  EXPECT_EQ(port_of(rig, frame_bytes(there), 0), 2);
  EXPECT_EQ(port_of(rig, frame_bytes(back), 3), 0);  // host 0 has moved to port 3
  EXPECT_EQ(port_of(rig, frame_bytes(there), 0), 3);
}

TEST(Learning, Forgets) {
  SwitchConfig config = ports(3);
  config.mac_aging = milliseconds(1000);
  Rig rig(config);
  rig.send(1, frame_bytes({.from = 50, .to = 0}));
  rig.take(0);
  const Bytes frame = frame_bytes({.from = 0, .to = 50});
  rig.now = rig.now + milliseconds(999);
  EXPECT_EQ(port_of(rig, frame), 1);
  rig.now = rig.now + milliseconds(1);
  rig.send(0, frame);
  EXPECT_EQ(rig.take_all(1) + rig.take_all(2), 2u);
  rig.send(1, frame_bytes({.from = 50, .to = 0}));
  rig.take(0);
  EXPECT_EQ(port_of(rig, frame), 1);
  rig.fabric->set_port_up(1, false, rig.now);
  EXPECT_EQ(port_of(rig, frame), 2);  // flooded to the remaining ports
}

TEST(Learning, ManyStrangersDoNotBreakIt) {
  SwitchConfig config = ports(3);
  config.learned_macs = 64;
  Rig rig(config);
  for (unsigned n = 1000; n < 11'000; n++) {
    rig.now = rig.now + nanoseconds(1);
    rig.send(1, frame_bytes({.from = n, .to = 0}));
    ASSERT_EQ(rig.take_all(0), 1u);
    ASSERT_EQ(port_of(rig, frame_bytes({.from = 0, .to = n})), 1);  // the newest is always known
  }
}

TEST(Flooding, OnlyInItsTree) {
  SwitchConfig config = ports(4);
  config.ports[2].flood = false;
  Rig rig(config);
  Bytes everybody = frame_bytes({});
  std::fill(everybody.begin(), everybody.begin() + 6, uint8_t{0xff});
  rig.send(0, everybody);
  EXPECT_EQ(rig.take(1), everybody);
  EXPECT_EQ(rig.take(2), Bytes{});
  EXPECT_EQ(rig.take(3), everybody);
  rig.send(2, everybody);
  EXPECT_EQ(rig.drops(2, Drop::kFloodBlocked), 1u);
  rig.fabric->set_port_up(3, false, rig.now);
  rig.send(0, everybody);
  EXPECT_EQ(rig.take_all(1), 1u);
  rig.fabric->set_port_up(1, false, rig.now);
  rig.send(0, everybody);
  EXPECT_EQ(rig.drops(0, Drop::kNoRoute), 1u);
}

TEST(Flooding, CopiesAreIndependent) {
  // Marking one copy must not mark the other.
  SwitchConfig config = ports(3);
  for (PriorityConfig& priority : config.priorities) priority.ecn = {true, 0, 0, 1, 0};
  Rig rig(config);
  Bytes everybody = frame_bytes({});
  std::fill(everybody.begin(), everybody.begin() + 6, uint8_t{0xff});
  rig.send(0, everybody);
  rig.send({.from = 0, .to = 1});
  EXPECT_EQ(ecn(rig.take(1)), Ecn::kMarked);
  EXPECT_EQ(rig.take(2), everybody);
  rig.take_all(1);
}

TEST(Flooding, NoMemoryForACopy) {
  SwitchConfig config = ports(4);
  BufferPool pool(2048, 2);
  SeededRandom random(1);
  Switch fabric(config, pool, random);
  const Bytes bytes = frame_bytes({.to = 77});
  const FabricFrame frame = pool.allocate(1000);
  std::copy(bytes.begin(), bytes.end(), frame.data);
  fabric.on_frame(0, frame, {1000});
  EXPECT_EQ(fabric.counters(0).drops[static_cast<unsigned>(Drop::kNoFrameMemory)], 1u);
  unsigned out = 0;
  for (PortId port = 1; port < 4; port++) {
    const FabricFrame copy = fabric.poll_transmit(port, {1000});
    if (!copy) continue;
    out++;
    pool.release(copy);
  }
  EXPECT_EQ(out, 2u);
}

TEST(Ports, WhatWaitsAtAPortThatGoesDownIsLost) {
  Rig rig(ports(3));
  rig.send({});
  rig.send({});
  rig.fabric->set_port_up(1, false, rig.now);
  EXPECT_EQ(rig.drops(1, Drop::kPortDown), 2u);
  EXPECT_EQ(rig.fabric->buffer().shared_used(), 0u);
  EXPECT_EQ(rig.take(1), Bytes{});
  rig.send({});
  EXPECT_EQ(rig.drops(0, Drop::kPortDown), 1u);
  rig.send({.from = 1, .to = 0});
  EXPECT_EQ(rig.drops(1, Drop::kPortDown), 3u);
  rig.fabric->set_port_up(1, true, rig.now);
  rig.send({});
  EXPECT_EQ(rig.take(1), frame_bytes({}));
}

TEST(Priorities, PcpOfATaggedFrameElseDscp) {
  SwitchConfig config = ports(2);
  config.pcp_priority[5] = 1;
  config.dscp_priority[48] = 4;
  Rig rig(config);
  const auto queue_of = [&rig](const Bytes& frame) {
    rig.send(0, frame);
    unsigned found = kPriorities;
    for (unsigned i = 0; i < kPriorities; i++) {
      if (rig.fabric->queue_bytes(1, i) != 0) found = i;
    }
    rig.take_all(1);
    return found;
  };
  EXPECT_EQ(queue_of(frame_bytes({.priority = 3})), 3u);
  EXPECT_EQ(queue_of(frame_bytes({.priority = 3, .ipv6 = true})), 3u);
  EXPECT_EQ(queue_of(frame_bytes({.priority = 6})), 4u);                              // DSCP 48, by the table
  EXPECT_EQ(queue_of(frame_bytes({.priority = 3, .vlan_id = 7, .pcp = 2})), 2u);      // the tag wins
  EXPECT_EQ(queue_of(frame_bytes({.priority = 3, .vlan_id = 7, .pcp = 5})), 1u);      // by the table
  EXPECT_EQ(queue_of(frame_bytes({.priority = 3, .ipv6 = true, .vlan_id = 7})), 0u);  // priority 0 counts, too
  Bytes arp = frame_bytes({.priority = 3});
  arp[13] = 0x06;
  EXPECT_EQ(queue_of(arp), 0u);
}

TEST(LossyBuffer, AQueueGetsItsShareOfWhatIsFree) {
  SwitchConfig config = ports(4);
  config.buffer_bytes = 120'000;
  config.lossy_alpha = 0.5;
  Rig rig(config);
  // With the frame in it, q may be half of what was free before: 40,000 of 81,000 for the last.
  for (unsigned i = 0; i < 60; i++) rig.send({.from = 0, .to = 1});
  EXPECT_EQ(rig.fabric->queue_bytes(1, 0), 40'000u);
  EXPECT_EQ(rig.drops(0, Drop::kEgressShare), 20u);
  // A second queue finds 80,000: 27,000 of 54,000 for the last.
  for (unsigned i = 0; i < 60; i++) rig.send({.from = 0, .to = 2});
  EXPECT_EQ(rig.fabric->queue_bytes(2, 0), 27'000u);
  EXPECT_EQ(rig.fabric->counters(2).max_queue_bytes[0], 27'000u);
}

TEST(LossyBuffer, Full) {
  SwitchConfig config = ports(2);
  config.buffer_bytes = 50'000;
  config.lossy_alpha = 1000;
  config.max_frame_bytes = 4000;
  Rig rig(config);
  for (unsigned i = 0; i < 60; i++) rig.send({});
  EXPECT_EQ(rig.fabric->queue_bytes(1, 0), 50'000u);
  EXPECT_EQ(rig.drops(0, Drop::kBufferFull), 10u);
  rig.send({.priority = 2});
  EXPECT_EQ(rig.drops(0, Drop::kBufferFull), 11u);
}

TEST(LossyBuffer, NoDescriptors) {
  SwitchConfig config = ports(2);
  config.max_frames = 10;
  Rig rig(config);
  for (unsigned i = 0; i < 12; i++) rig.send({});
  EXPECT_EQ(rig.drops(0, Drop::kNoDescriptor), 2u);
  EXPECT_EQ(rig.fabric->buffer().shared_used(), 10'000u);
  EXPECT_EQ(rig.take_all(1), 10u);
}

}  // namespace
}  // namespace uroce::fabric::test
