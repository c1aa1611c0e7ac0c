// Marking: which frames, how often, and what it does to their bytes.
#include <gtest/gtest.h>

#include <cmath>

#include "packet/packet.h"
#include "rig.h"

namespace uroce::fabric::test {
namespace {

using uroce::test::from_hex;
using uroce::test::to_hex;

bool mark(Bytes& frame) { return mark_congestion(frame, inspect(frame)); }

TEST(MarkCongestion, LiteralIpv4Header) {
  // DSCP 26, ECT(0). The other words add up to 0x9434, so that 0x456a makes the sum 0xd99e.
  Bytes frame = from_hex(
      "525400000001 525400000002 0800"
      "456a0020 00004000 4011 2661 0a000002 0a000001"
      "c000 12b7 000c 0000 00000000");
  Bytes expected = frame;
  expected[15] = 0x6b;
  expected[24] = 0x26;
  expected[25] = 0x60;
  ASSERT_TRUE(mark(frame));
  EXPECT_EQ(to_hex(frame), to_hex(expected));
  ASSERT_TRUE(mark(frame));  // marking it again changes nothing
  EXPECT_EQ(to_hex(frame), to_hex(expected));
}

TEST(MarkCongestion, ChecksumThatWraps) {
  // From ECT(1) the word grows by 2, from ECT(0) by 1: the checksum falls by as much, across zero, too.
  for (const uint8_t tos : {uint8_t{1}, uint8_t{2}}) {
    for (uint32_t id = 0; id <= 0xffff; id++) {
      Bytes frame(34);
      frame[12] = 0x08;
      frame[14] = 0x45;
      frame[15] = tos;
      frame[18] = static_cast<uint8_t>(id >> 8);
      frame[19] = static_cast<uint8_t>(id);
      const auto sum_of = [&frame] {
        uint32_t sum = 0;
        for (size_t i = 14; i < 34; i += 2) sum += (uint32_t{frame[i]} << 8) | frame[i + 1];
        while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
        return sum;
      };
      const uint32_t checksum = 0xffff - sum_of();
      frame[24] = static_cast<uint8_t>(checksum >> 8);
      frame[25] = static_cast<uint8_t>(checksum);
      ASSERT_EQ(sum_of(), 0xffffu);
      ASSERT_TRUE(mark(frame));
      ASSERT_EQ(frame[15], 3);
      ASSERT_EQ(sum_of(), 0xffffu) << id;
    }
  }
}

TEST(MarkCongestion, AWrongChecksumStaysWrong) {
  Bytes frame = frame_bytes({});
  frame[25] ^= 0x55;
  ASSERT_TRUE(mark(frame));
  PacketView view;
  EXPECT_EQ(parse_frame(frame, view), ParseResult::kBadIpHeader);
}

TEST(MarkCongestion, PacketsStayGood) {
  for (const bool ipv6 : {false, true}) {
    for (const uint16_t vlan_id : {uint16_t{0}, uint16_t{100}}) {
      Bytes frame = frame_bytes({.priority = 5, .ipv6 = ipv6, .vlan_id = vlan_id, .pcp = 3});
      ASSERT_TRUE(mark(frame));
      PacketView view;
      ASSERT_EQ(parse_frame(frame, view), ParseResult::kOk);
      EXPECT_TRUE(view.ecn_marked());
      EXPECT_EQ(view.traffic_class, (5 << 5) | 3);
      EXPECT_EQ(view.vlan_id, vlan_id);
      EXPECT_TRUE(icrc_matches(view));
      Bytes cannot = frame_bytes({.ecn = Ecn::kNotCapable, .ipv6 = ipv6, .vlan_id = vlan_id});
      const Bytes before = cannot;
      EXPECT_FALSE(mark(cannot));
      EXPECT_EQ(cannot, before);
    }
  }
}

TEST(SetTrafficClass, EveryOneInGoodPackets) {
  for (const bool ipv6 : {false, true}) {
    for (const uint16_t vlan_id : {uint16_t{0}, uint16_t{100}}) {
      for (unsigned traffic_class = 0; traffic_class < 256; traffic_class++) {
        Bytes frame = frame_bytes({.priority = 3, .ipv6 = ipv6, .vlan_id = vlan_id});
        set_traffic_class(frame, inspect(frame), static_cast<uint8_t>(traffic_class));
        PacketView view;
        ASSERT_EQ(parse_frame(frame, view), ParseResult::kOk);
        EXPECT_EQ(view.traffic_class, traffic_class);
        EXPECT_TRUE(icrc_matches(view));
      }
    }
  }
}

TEST(MarkCongestion, Ipv6LiteralTrafficClass) {
  Bytes frame = frame_bytes({.priority = 3, .ipv6 = true});
  ASSERT_EQ(to_hex(std::span(frame).subspan(14, 4)), "66200000");  // version 6, traffic class 0x62
  ASSERT_TRUE(mark(frame));
  EXPECT_EQ(to_hex(std::span(frame).subspan(14, 4)), "66300000");
}

SwitchConfig marking(uint32_t kmin, uint32_t kmax, double pmax) {
  SwitchConfig config = ports(2);
  for (PriorityConfig& priority : config.priorities) priority.ecn = {true, kmin, kmax, pmax, 0};
  return config;
}

/// How many of `trials` frames are marked, each of which leaves `left` frames of 1000 bytes behind it.
uint64_t marked(const SwitchConfig& config, unsigned left, unsigned trials, uint64_t seed = 3) {
  Rig rig(config, seed);
  for (unsigned i = 0; i < left; i++) rig.send({});
  const Bytes frame = frame_bytes({});
  uint64_t count = 0;
  for (unsigned i = 0; i < trials; i++) {
    rig.send(0, frame);
    if (ecn(rig.take(1)) == Ecn::kMarked) count++;
  }
  EXPECT_EQ(rig.fabric->counters(1).ecn_marked, count);
  EXPECT_EQ(rig.fabric->queue_bytes(1, 0), left * 1000u);
  return count;
}

TEST(Ecn, ProbabilityIsTheClosedForm) {
  constexpr unsigned kTrials = 40000;
  const SwitchConfig config = marking(10'000, 30'000, 0.5);
  EXPECT_EQ(marked(config, 0, 1000), 0u);
  EXPECT_EQ(marked(config, 10, 1000), 0u);     // at kmin
  EXPECT_EQ(marked(config, 31, 1000), 1000u);  // above kmax
  for (const unsigned left : {11, 15, 20, 29, 30}) {
    const double p = 0.5 * (left - 10) / 20;
    const double sigma = std::sqrt(kTrials * p * (1 - p));
    EXPECT_NEAR(static_cast<double>(marked(config, left, kTrials)), kTrials * p, 4 * sigma) << left;
  }
}

TEST(Ecn, AStepWithoutASlope) {
  const SwitchConfig config = marking(20'000, 20'000, 1);
  EXPECT_EQ(marked(config, 20, 100), 0u);
  EXPECT_EQ(marked(config, 21, 100), 100u);
  SwitchConfig off = config;
  for (PriorityConfig& priority : off.priorities) priority.ecn.enabled = false;
  EXPECT_EQ(marked(off, 100, 100), 0u);
}

TEST(Ecn, ThresholdsGrowWithTheRate) {
  EcnConfig ecn;
  EXPECT_EQ(ecn_kmin(ecn, 25'000'000'000), 100'000u);
  EXPECT_EQ(ecn_kmin(ecn, 100'000'000'000), 400'000u);
  EXPECT_EQ(ecn_kmax(ecn, 100'000'000'000), 1'600'000u);
  EXPECT_EQ(ecn_kmax(ecn, 10'000'000'000), 160'000u);
  ecn.per_bits_per_second = 0;
  EXPECT_EQ(ecn_kmax(ecn, 10'000'000'000), 400'000u);
}

TEST(Ecn, OnlyWhoUnderstandsItAndByTheOwnQueue) {
  Rig rig(marking(5'000, 5'000, 1));
  for (unsigned i = 0; i < 8; i++) rig.send({.priority = 2, .ecn = Ecn::kNotCapable});
  rig.send({.priority = 1});
  const Bytes other = rig.take(1);  // equal weights, priority 1 first in the round
  EXPECT_EQ(inspect(other).dscp(), 8);
  EXPECT_EQ(ecn(other), Ecn::kEct0);
  EXPECT_EQ(ecn(rig.take(1)), Ecn::kNotCapable);
  EXPECT_EQ(rig.fabric->counters(1).ecn_marked, 0u);
  EXPECT_EQ(rig.fabric->counters(1).ecn_not_capable, 1u);
}

TEST(Ecn, EachPortHasItsOwnChance) {
  // Further ports, and traffic at them, do not change the marks at port 1.
  const auto marks = [](size_t count, bool busy) {
    SwitchConfig config = marking(0, 100'000, 1);
    config.ports.resize(count);
    Rig rig(config, 17);
    std::string text;
    for (unsigned i = 0; i < 50; i++) rig.send({.from = 0, .to = 1});
    for (unsigned i = 0; i < 500; i++) {
      rig.send({.from = 0, .to = 1});
      if (busy) rig.send({.from = 1, .to = 2});
      if (busy) rig.send({.from = 1, .to = 2});
      if (busy) rig.take(2);
      text += ecn(rig.take(1)) == Ecn::kMarked ? '#' : '.';
    }
    return text;
  };
  const std::string alone = marks(2, false);
  EXPECT_NE(alone.find("#."), std::string::npos);
  EXPECT_EQ(marks(9, true), alone);
}

}  // namespace
}  // namespace uroce::fabric::test
