// Impairments in virtual time: what the test calls time passes in `flush` only.
#include "pmd/card/wires/impaired_wire.h"

#include <cmath>
#include <deque>
#include <map>

#include "wire_support.h"

namespace mqnic::card {
namespace {

/// The far end of the cable: keeps what is sent.
class SinkWire final : public Wire {
 public:
  struct Arrival {
    Frame frame;
    uint64_t at_ns;
  };
  bool connected() override { return true; }
  std::span<uint8_t> reserve(size_t bytes) override {
    if (full) return {};
    open_.resize(bytes);
    return open_;
  }
  void commit(size_t bytes) override {
    arrived.push_back({Frame(open_.begin(), open_.begin() + static_cast<long>(bytes)), 0});
  }
  std::span<const uint8_t> front() override { return incoming.empty() ? std::span<const uint8_t>() : incoming.front(); }
  void pop() override { incoming.pop_front(); }
  void flush(uint64_t now_ns) override {
    for (; stamped_ < arrived.size(); stamped_++) arrived[stamped_].at_ns = now_ns;
  }

  std::vector<Arrival> arrived;
  std::deque<Frame> incoming;
  bool full = false;

 private:
  Frame open_;
  size_t stamped_ = 0;
};

struct Bench {
  explicit Bench(const WireKnobs& knobs) {
    auto inner = std::make_unique<SinkWire>();
    sink = inner.get();
    wire = std::make_unique<ImpairedWire>(std::move(inner), knobs);
    wire->flush(now);
  }
  void pass(uint64_t ns) { wire->flush(now += ns); }
  /// Sends `count` frames of `bytes` each as fast as the wire takes them.
  void send_all(uint32_t count, size_t bytes, uint64_t step_ns) {
    for (uint32_t i = 0; i < count;) {
      for (int burst = 0; burst < 32 && i < count && put(*wire, numbered_frame(i, bytes)); burst++) i++;
      pass(step_ns);
    }
  }
  std::vector<uint32_t> numbers() const {
    std::vector<uint32_t> all;
    for (const auto& arrival : sink->arrived) all.push_back(number_of(arrival.frame));
    return all;
  }

  SinkWire* sink = nullptr;
  std::unique_ptr<ImpairedWire> wire;
  uint64_t now = 1'000'000;
};

WireKnobs knobs_of(std::initializer_list<std::pair<const char*, const char*>> settings) {
  WireKnobs knobs;
  std::string error;
  for (const auto& [name, value] : settings) EXPECT_TRUE(set_wire_knob(knobs, name, value, error)) << error;
  return knobs;
}

TEST(ImpairedWire, DelayIsKeptToTheNanosecond) {
  Bench bench(knobs_of({{"delay", "20us"}}));
  ASSERT_TRUE(put(*bench.wire, numbered_frame(1, 100)));
  bench.pass(500);  // it leaves here
  bench.pass(19'999);
  EXPECT_TRUE(bench.sink->arrived.empty());
  bench.pass(1);
  ASSERT_EQ(bench.sink->arrived.size(), 1u);
  EXPECT_EQ(bench.sink->arrived[0].frame, numbered_frame(1, 100));
}

TEST(ImpairedWire, BandwidthCountsPreambleFcsAndGap) {
  // 1,500 bytes at 1G: (1500 + 24) * 8 = 12,192 ns each.
  Bench bench(knobs_of({{"bandwidth", "1G"}}));
  const uint64_t start = bench.now;
  bench.send_all(1000, 1500, 1000);
  while (bench.sink->arrived.size() < 1000) bench.pass(100);
  const double took = static_cast<double>(bench.now - start);
  EXPECT_NEAR(took, 1000 * 12'192.0, 3000.0);
  // Evenly spaced, not in bursts.
  for (size_t i = 100; i < 900; i++) {
    ASSERT_NEAR(static_cast<double>(bench.sink->arrived[i + 1].at_ns - bench.sink->arrived[i].at_ns), 12'192.0, 1100.0);
  }
}

TEST(ImpairedWire, ShortFramesTakeTheTimeOfTheShortestOne) {
  // 64 with FCS + 20: 84 * 8 = 672 ns at 1G.
  Bench bench(knobs_of({{"bandwidth", "1G"}}));
  const uint64_t start = bench.now;
  bench.send_all(1000, 14, 500);
  while (bench.sink->arrived.size() < 1000) bench.pass(50);
  EXPECT_NEAR(static_cast<double>(bench.now - start), 672'000.0, 700.0);
}

TEST(ImpairedWire, UsedUpBandwidthLeavesThePacketWithTheCard) {
  Bench bench(knobs_of({{"bandwidth", "1G"}}));
  uint32_t taken = 0;
  while (put(*bench.wire, numbered_frame(taken, 1500))) ASSERT_LT(++taken, 1000u);
  EXPECT_GE(taken, 2u);
  EXPECT_LE(taken, 12u) << "no more than 100 us ahead";
  bench.pass(1);  // they leave from here on
  EXPECT_FALSE(put(*bench.wire, numbered_frame(taken, 1500)));
  bench.pass(12'192 * 2);
  EXPECT_TRUE(put(*bench.wire, numbered_frame(taken, 1500)));
}

TEST(ImpairedWire, SlowWireStillTakesOneFrame) {
  Bench bench(knobs_of({{"bandwidth", "1K"}}));
  EXPECT_TRUE(put(*bench.wire, numbered_frame(1, 9214)));
}

/// Within five standard deviations of the binomial distribution, which a wrong chance would leave.
void expect_share(uint64_t count, uint32_t frames, double chance) {
  EXPECT_NEAR(static_cast<double>(count), frames * chance, 5 * std::sqrt(frames * chance * (1 - chance)));
}

TEST(ImpairedWire, ChancesAreMet) {
  constexpr uint32_t kFrames = 100'000;
  Bench bench(
      knobs_of({{"loss", "1%"}, {"corrupt", "0.02"}, {"duplicate", "0.03"}, {"reorder", "0.05"}, {"seed", "5"}}));
  bench.send_all(kFrames, 64, 1000);
  for (int i = 0; i < 3; i++) bench.pass(1'000'000);
  const auto& counts = bench.wire->counts();
  expect_share(counts.lost, kFrames, 0.01);
  expect_share(counts.corrupted, kFrames, 0.99 * 0.02);
  expect_share(counts.duplicated, kFrames, 0.99 * 0.03);
  EXPECT_GT(counts.reordered, kFrames * 0.04);
  EXPECT_EQ(bench.sink->arrived.size(), kFrames - counts.lost + counts.duplicated);
}

TEST(ImpairedWire, LostFramesAreMissingAndNothingElseIs) {
  constexpr uint32_t kFrames = 20'000;
  Bench bench(knobs_of({{"loss", "0.1"}, {"delay", "5us"}}));
  bench.send_all(kFrames, 200, 1000);
  bench.pass(5'000);
  const auto numbers = bench.numbers();
  EXPECT_EQ(numbers.size(), kFrames - bench.wire->counts().lost);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  for (const auto& arrival : bench.sink->arrived) {
    ASSERT_EQ(arrival.frame, numbered_frame(number_of(arrival.frame), 200));
  }
}

TEST(ImpairedWire, CorruptionIsOneBitAnywhere) {
  constexpr uint32_t kFrames = 5000;
  Bench bench(knobs_of({{"corrupt", "1"}}));
  bench.send_all(kFrames, 80, 1000);
  ASSERT_EQ(bench.sink->arrived.size(), kFrames);
  std::map<size_t, int> places;
  for (uint32_t i = 0; i < kFrames; i++) {
    const Frame want = numbered_frame(i, 80);
    int bits = 0;
    for (size_t at = 0; at < 80; at++) {
      const int wrong = __builtin_popcount(want[at] ^ bench.sink->arrived[i].frame[at]);
      bits += wrong;
      if (wrong != 0) places[at]++;
    }
    ASSERT_EQ(bits, 1);
  }
  EXPECT_EQ(places.size(), 80u);
}

TEST(ImpairedWire, DuplicatesFollowTheirOriginal) {
  Bench bench(knobs_of({{"duplicate", "1"}}));
  bench.send_all(100, 60, 1000);
  ASSERT_EQ(bench.sink->arrived.size(), 200u);
  for (uint32_t i = 0; i < 200; i++) ASSERT_EQ(bench.sink->arrived[i].frame, numbered_frame(i / 2, 60));
}

TEST(ImpairedWire, ReorderedFramesSwapWithTheNextOne) {
  Bench bench(knobs_of({{"reorder", "1"}}));
  bench.send_all(6, 60, 1000);
  EXPECT_EQ(bench.numbers(), (std::vector<uint32_t>{1, 0, 3, 2, 5, 4}));
}

TEST(ImpairedWire, ReorderedFrameThatNobodyFollowsGoesAllTheSame) {
  Bench bench(knobs_of({{"reorder", "1"}}));
  bench.send_all(1, 60, 1000);
  EXPECT_TRUE(bench.sink->arrived.empty());
  bench.pass(1'100'000);
  EXPECT_EQ(bench.numbers(), (std::vector<uint32_t>{0}));
}

std::vector<Frame> run_of(const WireKnobs& knobs) {
  Bench bench(knobs);
  bench.send_all(3000, 100, 1000);
  bench.pass(2'000'000);
  std::vector<Frame> frames;
  for (auto& arrival : bench.sink->arrived) frames.push_back(arrival.frame);
  return frames;
}

TEST(ImpairedWire, SameSeedSameFate) {
  WireKnobs knobs = knobs_of({{"loss", "0.1"}, {"corrupt", "0.1"}, {"duplicate", "0.1"}, {"reorder", "0.1"}});
  const auto first = run_of(knobs);
  EXPECT_EQ(first, run_of(knobs));
  knobs.seed = 2;
  EXPECT_NE(first, run_of(knobs));
  // Bandwidth and delay change when frames arrive, not which.
  knobs.seed = 1;
  knobs.delay_ns = 7777;
  knobs.bandwidth_bps = 10'000'000'000;
  EXPECT_EQ(first, run_of(knobs));
}

TEST(ImpairedWire, FullWireBehindItLosesNothing) {
  Bench bench(knobs_of({{"delay", "1us"}}));
  bench.sink->full = true;
  uint32_t taken = 0;
  while (put(*bench.wire, numbered_frame(taken, 60))) {
    ASSERT_LE(++taken, ImpairedWire::kSlots);
    if (taken % 32 == 0) bench.pass(1000);
  }
  EXPECT_GE(taken, ImpairedWire::kSlots - 2);
  bench.pass(10'000);
  bench.sink->full = false;
  bench.pass(1000);
  ASSERT_EQ(bench.sink->arrived.size(), taken);
  EXPECT_EQ(bench.sink->arrived.back().frame, numbered_frame(taken - 1, 60));
  EXPECT_TRUE(put(*bench.wire, numbered_frame(0, 60)));
}

TEST(ImpairedWire, PauseFramesComeInEveryIntervalBetweenTheOthers) {
  Bench bench(knobs_of({{"pause", "258@10us"}}));
  for (uint32_t i = 0; i < 100; i++) bench.sink->incoming.push_back(numbered_frame(i, 60));
  uint32_t others = 0;
  std::vector<uint64_t> pauses;
  for (int step = 0; step < 1000; step++) {
    bench.pass(100);
    const Frame frame = take(*bench.wire);
    if (frame.empty()) continue;
    if (frame[0] == 0x01 && frame[12] == 0x88) {
      const Frame want = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00,
                          0x00, 0x00, 0x01, 0x88, 0x08, 0x00, 0x01, 0x01, 0x02};
      EXPECT_TRUE(std::equal(want.begin(), want.end(), frame.begin()));
      EXPECT_EQ(frame.size(), 60u);
      pauses.push_back(bench.now);
    } else {
      EXPECT_EQ(frame, numbered_frame(others++, 60));
    }
  }
  EXPECT_EQ(others, 100u);
  ASSERT_EQ(pauses.size(), 10u);
  for (size_t i = 1; i < pauses.size(); i++) EXPECT_EQ(pauses[i] - pauses[i - 1], 10'000u);
}

TEST(ImpairedWire, NobodyLookingForALongTimeIsOnePauseFrame) {
  Bench bench(knobs_of({{"pause", "1@10us"}}));
  bench.pass(1'000'000);
  EXPECT_FALSE(take(*bench.wire).empty());
  EXPECT_TRUE(take(*bench.wire).empty());
}

}  // namespace
}  // namespace mqnic::card
