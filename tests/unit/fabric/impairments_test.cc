// Faults of a cable: how often, which ones, and what they do to a frame.
#include "fabric/impairments.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>

#include "packet/packet.h"
#include "rig.h"

namespace uroce::fabric::test {
namespace {

/// One direction of a cable, with all frames that come out of it.
class Cable {
 public:
  explicit Cable(const ImpairmentConfig& config, uint64_t seed = 1)
      : random_(seed), faults(config, pool, random_, Instant{1'000'000}), now{1'000'000} {}
  explicit Cable(std::string_view text, uint64_t seed = 1) : Cable(parsed(text), seed) {}
  ~Cable() { EXPECT_EQ(pool.in_use(), 0u); }

  static ImpairmentConfig parsed(std::string_view text) {
    ImpairmentConfig config;
    EXPECT_EQ(parse_impairments(text, config), "");
    return config;
  }
  struct Arrival {
    Bytes bytes;
    int64_t delay_ns = 0;
  };
  std::vector<Arrival> send(const Bytes& bytes) {
    const FabricFrame frame = pool.allocate(static_cast<uint32_t>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), frame.data);
    Delivery out[Impairments::kMaxDeliveries];
    std::vector<Arrival> arrivals;
    const uint32_t count = faults.on_frame(frame, now, out);
    for (uint32_t i = 0; i < count; i++) {
      arrivals.push_back({Bytes(out[i].frame.data, out[i].frame.data + out[i].frame.bytes), out[i].delay.ns});
      pool.release(out[i].frame);
    }
    return arrivals;
  }
  /// "1" for a frame that arrives, "." for one that does not.
  std::string pattern(const std::vector<Bytes>& frames) {
    std::string text;
    for (const Bytes& frame : frames) text += send(frame).empty() ? '.' : '1';
    return text;
  }

  BufferPool pool;

 private:
  SeededRandom random_;

 public:
  Impairments faults;
  Instant now;
};

Bytes packet(uint8_t low, uint32_t psn = 1, uint32_t qp = 0x12) {
  return frame_bytes({.bytes = 200, .psn = psn, .qp = qp, .opcode = make_opcode(Service::kRc, low)});
}

Bytes acknowledge(AethKind kind) {
  const Aeth aeth{make_syndrome(kind, 0), 5};
  Bytes extension;
  uroce::test::append(extension, aeth);
  Bth bth;
  bth.opcode = make_opcode(Service::kRc, kOpAcknowledge);
  bth.dest_qp = 0x12;
  bth.psn = Psn(1);
  return uroce::test::frame_of(uroce::test::ipv4_path(), bth, extension, {});
}

Bytes cnp() { return frame_bytes({.bytes = 74, .opcode = kOpcodeCnp}); }

Bytes arp() {
  Bytes frame(60);
  frame[12] = 0x08;
  frame[13] = 0x06;
  return frame;
}

TEST(Impairments, NothingConfiguredNothingHappens) {
  Cable cable("");
  EXPECT_FALSE(cable.faults.active());
  const Bytes frame = packet(kOpSendOnly);
  for (unsigned i = 0; i < 1000; i++) {
    const auto arrivals = cable.send(frame);
    ASSERT_EQ(arrivals.size(), 1u);
    ASSERT_EQ(arrivals[0].bytes, frame);
    ASSERT_EQ(arrivals[0].delay_ns, 0);
  }
  EXPECT_EQ(cable.faults.counters().frames, 1000u);
  EXPECT_EQ(cable.faults.counters().bytes, 200'000u);
}

TEST(ExactRules, TheSecondTransmissionOfAPsnToAQp) {
  Cable cable("drop 2nd psn=7 qp=0x12");
  EXPECT_EQ(cable.pattern({packet(kOpSendFirst, 6), packet(kOpSendMiddle, 7), packet(kOpSendMiddle, 7, 0x13),
                           packet(kOpSendLast, 8), packet(kOpSendMiddle, 7), packet(kOpSendLast, 8),
                           packet(kOpSendMiddle, 7)}),
            "1111.11");
  EXPECT_EQ(cable.faults.rule_fits(0), 3u);
  EXPECT_EQ(cable.faults.rule_hits(0), 1u);
  EXPECT_EQ(cable.faults.counters().dropped_by_rule, 1u);
}

TEST(ExactRules, WhichOfThem) {
  const std::vector<Bytes> eight(8, packet(kOpSendOnly));
  EXPECT_EQ(Cable("drop").pattern(eight), ".1111111");
  EXPECT_EQ(Cable("drop 3").pattern(eight), "11.11111");
  EXPECT_EQ(Cable("drop 3rd; drop 5th").pattern(eight), "11.1.111");
  EXPECT_EQ(Cable("drop 3-5").pattern(eight), "11...111");
  EXPECT_EQ(Cable("drop 4-").pattern(eight), "111.....");
  EXPECT_EQ(Cable("drop all").pattern(eight), "........");
  EXPECT_EQ(Cable("drop every 3").pattern(eight), "11.11.11");
  EXPECT_EQ(Cable("drop every 3; drop every 4").pattern(eight), "11..1.1.");
}

TEST(ExactRules, ClassesOfPackets) {
  const std::vector<Bytes> all = {packet(kOpSendOnly),
                                  packet(kOpWriteFirst),
                                  packet(kOpReadRequest),
                                  packet(kOpReadResponseMiddle),
                                  packet(kOpFetchAdd),
                                  packet(kOpAtomicAcknowledge),
                                  acknowledge(AethKind::kAck),
                                  acknowledge(AethKind::kNak),
                                  acknowledge(AethKind::kRnrNak),
                                  cnp(),
                                  arp()};
  const auto dropped = [&all](const std::string& what) { return Cable("drop all " + what).pattern(all); };
  EXPECT_EQ(dropped("any"), "...........");
  EXPECT_EQ(dropped("roce"), "..........1");
  EXPECT_EQ(dropped("request"), "...1.111111");
  EXPECT_EQ(dropped("response"), "111.1....11");
  EXPECT_EQ(dropped("data"), "..1.1111111");
  EXPECT_EQ(dropped("send"), ".1111111111");
  EXPECT_EQ(dropped("write"), "1.111111111");
  EXPECT_EQ(dropped("read-request"), "11.11111111");
  EXPECT_EQ(dropped("read-response"), "111.1111111");
  EXPECT_EQ(dropped("atomic"), "1111.111111");
  EXPECT_EQ(dropped("atomic-ack"), "11111.11111");
  EXPECT_EQ(dropped("ack"), "111111.1111");
  EXPECT_EQ(dropped("nak"), "1111111.111");
  EXPECT_EQ(dropped("rnr-nak"), "11111111.11");
  EXPECT_EQ(dropped("cnp"), "111111111.1");
  EXPECT_EQ(dropped("opcode=0x11"), "111111...11");
  EXPECT_EQ(dropped("psn=1 ack"), "111111.1111");
  EXPECT_EQ(dropped("psn=2"), "11111111111");
}

TEST(ExactRules, WorkOverVlanAndIpv6) {
  for (const bool ipv6 : {false, true}) {
    Cable cable("drop all psn=3 qp=18 send");
    const Bytes frame = frame_bytes({.bytes = 200, .psn = 3, .qp = 18, .ipv6 = ipv6, .vlan_id = 5});
    EXPECT_EQ(cable.pattern({frame}), ".");
  }
}

TEST(ExactRules, Delay) {
  Cable cable("delay 2nd by 50us; delay 2-3 send by 1us");
  const Bytes frame = packet(kOpSendOnly);
  EXPECT_EQ(cable.send(frame)[0].delay_ns, 0);
  EXPECT_EQ(cable.send(frame)[0].delay_ns, 51'000);
  EXPECT_EQ(cable.send(frame)[0].delay_ns, 1'000);
  EXPECT_EQ(cable.send(frame)[0].delay_ns, 0);
  EXPECT_EQ(cable.faults.counters().delayed_by_rule, 3u);
}

TEST(ExactRules, Duplicate) {
  Cable cable("duplicate 1st by 5us; duplicate 1-2");
  const Bytes frame = packet(kOpSendOnly);
  const auto three = cable.send(frame);
  ASSERT_EQ(three.size(), 3u);
  for (const auto& arrival : three) EXPECT_EQ(arrival.bytes, frame);
  EXPECT_EQ(three[0].delay_ns, 0);
  EXPECT_EQ(three[1].delay_ns, 5'000);
  EXPECT_EQ(cable.send(frame).size(), 2u);
  EXPECT_EQ(cable.send(frame).size(), 1u);
  EXPECT_EQ(cable.faults.counters().duplicated_by_rule, 3u);
}

unsigned bits_changed(const Bytes& a, const Bytes& b) {
  unsigned count = 0;
  for (size_t i = 0; i < a.size(); i++)
    count += static_cast<unsigned>(std::popcount(static_cast<uint8_t>(a[i] ^ b[i])));
  return count;
}

TEST(ExactRules, CorruptAndMark) {
  Cable cable("corrupt 2nd; mark 3rd");
  const Bytes frame = packet(kOpSendOnly);
  EXPECT_EQ(cable.send(frame)[0].bytes, frame);
  const unsigned changed = bits_changed(cable.send(frame)[0].bytes, frame);
  EXPECT_GE(changed, 1u);
  EXPECT_LE(changed, 3u);
  const Bytes marked = cable.send(frame)[0].bytes;
  PacketView view;
  ASSERT_EQ(parse_frame(marked, view), ParseResult::kOk);
  EXPECT_TRUE(view.ecn_marked() && icrc_matches(view));
  EXPECT_EQ(cable.faults.counters().corrupted_by_rule, 1u);
  EXPECT_EQ(cable.faults.counters().marked_by_rule, 1u);
}

uint64_t arrived(Cable& cable, unsigned frames, const Bytes& frame) {
  uint64_t count = 0;
  for (unsigned i = 0; i < frames; i++) count += cable.send(frame).size();
  return count;
}

TEST(RandomFaults, LossAtItsRate) {
  Cable cable("loss 1%");
  constexpr unsigned kFrames = 200'000;
  const uint64_t lost = kFrames - arrived(cable, kFrames, arp());
  EXPECT_NEAR(static_cast<double>(lost), kFrames * 0.01, 4 * std::sqrt(kFrames * 0.01));
  EXPECT_EQ(cable.faults.counters().lost, lost);
  Cable everything("loss 1.0");
  EXPECT_EQ(arrived(everything, 1000, arp()), 0u);
}

TEST(RandomFaults, GilbertElliott) {
  // Of all frames to_bad / (to_bad + to_good) = 1/21 find the channel bad, in bursts of 5 on average; between two
  // bursts there are 100.
  Cable cable("burst-loss to-bad=1% to-good=20%");
  constexpr unsigned kFrames = 400'000;
  uint64_t lost = 0;
  uint64_t bursts = 0;
  bool before = false;
  std::map<uint64_t, unsigned> lengths;
  uint64_t length = 0;
  for (unsigned i = 0; i < kFrames; i++) {
    const bool now = cable.send(arp()).empty();
    if (now) lost++;
    if (now && !before) bursts++;
    length = now ? length + 1 : 0;
    if (now) lengths[length]++;
    before = now;
  }
  EXPECT_EQ(cable.faults.counters().lost_in_burst, lost);
  EXPECT_NEAR(static_cast<double>(lost) / kFrames, 1.0 / 21, 0.003);
  EXPECT_NEAR(static_cast<double>(lost) / static_cast<double>(bursts), 5, 0.3);
  // Geometric: of the bursts that reach n frames, four in five reach n + 1.
  for (uint64_t n = 1; n <= 6; n++) {
    EXPECT_NEAR(static_cast<double>(lengths[n + 1]) / static_cast<double>(lengths[n]), 0.8, 0.04) << n;
  }
}

TEST(RandomFaults, GilbertElliottWithLossesInBothStates) {
  // Good for 3 frames in 4, losing 10 % then and 50 % otherwise: 20 %.
  Cable cable("burst-loss to-bad=10% to-good=30% bad=50% good=10%");
  constexpr unsigned kFrames = 200'000;
  EXPECT_NEAR(static_cast<double>(arrived(cable, kFrames, arp())) / kFrames, 0.8, 0.006);
}

TEST(RandomFaults, CorruptionOfWhatHasChecksums) {
  Cable cable("corrupt 100%");
  const Bytes frame = packet(kOpSendOnly);
  std::map<unsigned, unsigned> counts;
  for (unsigned i = 0; i < 3000; i++) {
    counts[bits_changed(cable.send(frame)[0].bytes, frame)]++;
    ASSERT_EQ(cable.send(arp())[0].bytes, arp());
  }
  ASSERT_EQ(counts.size(), 3u);
  for (unsigned bits = 1; bits <= 3; bits++) EXPECT_NEAR(counts[bits], 1000, 110);
  EXPECT_EQ(cable.faults.counters().corrupted, 3000u);
}

TEST(RandomFaults, DuplicatesAndReordering) {
  Cable cable("duplicate 25% within 5us; reorder 10% within 50us");
  uint64_t twice = 0;
  uint64_t late = 0;
  int64_t latest_copy = 0;
  int64_t latest = 0;
  for (unsigned i = 0; i < 20'000; i++) {
    const auto arrivals = cable.send(arp());
    ASSERT_GE(arrivals.size(), 1u);
    if (arrivals.size() == 2) {
      twice++;
      latest_copy = std::max(latest_copy, arrivals[1].delay_ns);
      ASSERT_GT(arrivals[1].delay_ns, 0);
    }
    if (arrivals[0].delay_ns > 0) late++;
    latest = std::max(latest, arrivals[0].delay_ns);
  }
  EXPECT_NEAR(static_cast<double>(twice), 5000, 250);
  EXPECT_NEAR(static_cast<double>(late), 2000, 175);
  EXPECT_GT(latest_copy, 4'900);
  EXPECT_LE(latest_copy, 5'000);
  EXPECT_GT(latest, 49'000);
  EXPECT_LE(latest, 50'000);
  EXPECT_EQ(cable.faults.counters().duplicated, twice);
  EXPECT_EQ(cable.faults.counters().reordered, late);
}

TEST(RandomFaults, JitterDoesNotReorder) {
  Cable cable("jitter 3us");
  int64_t last = 0;
  std::map<int64_t, unsigned> delays;
  for (unsigned i = 0; i < 10'000; i++) {
    cable.now = cable.now + nanoseconds(100);
    const int64_t delay = cable.send(arp())[0].delay_ns;
    ASSERT_LE(delay, 3'000);
    ASSERT_GE(delay, 0);
    ASSERT_GE(cable.now.ns + delay, last);
    last = cable.now.ns + delay;
    delays[delay / 1000]++;
  }
  EXPECT_GE(delays.size(), 2u);
  cable.now = cable.now + milliseconds(1);
  EXPECT_LE(cable.send(arp())[0].delay_ns, 3'000);
}

TEST(RandomFaults, AKindDoesNotShiftTheOthersVictims) {
  const std::vector<Bytes> frames(5000, packet(kOpSendOnly));
  Cable alone("loss 5%", 9);
  Cable crowded("loss 5%; corrupt 3%; duplicate 10%; reorder 10%; jitter 1us", 9);
  EXPECT_EQ(alone.pattern(frames), crowded.pattern(frames));
  Cable other("loss 5%", 10);
  EXPECT_NE(alone.pattern(frames), other.pattern(frames));
}

TEST(RandomFaults, OnlyWhileActive) {
  Cable cable("loss 100%; active from 10us for 5us; drop 3rd");
  const Instant start = cable.now;
  const auto at = [&](int64_t us) {
    cable.now = start + microseconds(us);
    return cable.pattern({arp()});
  };
  EXPECT_EQ(at(0), "1");
  EXPECT_EQ(at(9), "1");
  EXPECT_EQ(at(9), ".");  // the rule counts by itself
  EXPECT_EQ(at(10), ".");
  EXPECT_EQ(at(14), ".");
  EXPECT_EQ(at(15), "1");
}

TEST(Flap, DownIntervals) {
  Cable cable("down from 10us for 2us every 5us; down from 1ms");
  const Instant start = cable.now;
  std::string text;
  for (int64_t us = 8; us < 24; us++) {
    cable.now = start + microseconds(us);
    EXPECT_EQ(cable.faults.is_down(cable.now), cable.send(arp()).empty());
    text += cable.faults.is_down(cable.now) ? '.' : '1';
  }
  EXPECT_EQ(text, "11..111..111..11");
  EXPECT_EQ(cable.faults.counters().lost_while_down, 6u);
  EXPECT_FALSE(cable.faults.is_down(start + microseconds(999)));
  EXPECT_TRUE(cable.faults.is_down(start + milliseconds(1)));
  EXPECT_TRUE(cable.faults.is_down(start + milliseconds(1'000'000)));
}

TEST(PauseStorms, InjectPauseFramesInTheirTime) {
  Cable cable("pause-storm prio=3 quanta=100 from 10us for 20us every 5us");
  const Instant start = cable.now;
  std::vector<int64_t> times;
  while (cable.faults.next_event() != Instant::never()) {
    EXPECT_FALSE(cable.faults.poll_injected(cable.faults.next_event() + nanoseconds(-1)));
    cable.now = cable.faults.next_event();
    const FabricFrame frame = cable.faults.poll_injected(cable.now);
    if (!frame) break;
    const auto pause = decode_pause(frame.view());
    ASSERT_TRUE(pause);
    EXPECT_EQ(pause->priorities, 1 << 3);
    EXPECT_EQ(pause->quanta[3], 100);
    times.push_back((cable.now - start).ns);
    cable.pool.release(frame);
  }
  EXPECT_EQ(times, (std::vector<int64_t>{10'000, 15'000, 20'000, 25'000}));
  EXPECT_EQ(cable.faults.counters().pauses_injected, 4u);
  EXPECT_EQ(cable.faults.next_event(), Instant::never());
}

TEST(PauseStorms, TwoAtOnceTakeTurns) {
  Cable cable("pause-storm prios=0x0c every 5us; pause-storm prio=7 every 7us");
  std::string text;
  const Instant end = cable.now + microseconds(30);
  while (cable.faults.next_event() < end) {
    cable.now = cable.faults.next_event();
    const FabricFrame frame = cable.faults.poll_injected(cable.now);
    ASSERT_TRUE(frame);
    text += decode_pause(frame.view())->priorities == 0x0c ? 'a' : 'b';
    cable.pool.release(frame);
  }
  EXPECT_EQ(text, "abababaabab");  // at 0 0 5 7 10 14 15 20 21 25 28
}

}  // namespace
}  // namespace uroce::fabric::test
