// The simulated cable and clock themselves.
#include "sim/link.h"

#include <gtest/gtest.h>

#include "sim/check/options.h"
#include "sim/world.h"

namespace uroce::sim {
namespace {

struct Arrivals final : FrameSink {
  explicit Arrivals(EventQueue& queue) : events(queue) {}
  void deliver(Frame&& frame) override {
    at.push_back(events.now());
    frames.push_back(std::move(frame));
  }
  EventQueue& events;
  std::vector<Instant> at;
  std::vector<Frame> frames;
};

class LinkTest : public testing::Test {
 protected:
  Link& make(const LinkConfig& config) {
    link_ = std::make_unique<Link>(events_, random_, sink_, config);
    return *link_;
  }
  void run() {
    while (!events_.empty()) events_.step();
  }
  /// An IP frame of that many bytes; the first byte of its payload is `mark`.
  static Frame frame(uint32_t bytes, uint8_t mark = 0) {
    Frame f(bytes);
    f[12] = 0x08;
    f[14] = mark;
    return f;
  }

  EventQueue events_{Instant{0}};
  SeededRandom random_{7};
  Arrivals sink_{events_};
  std::unique_ptr<Link> link_;
};

TEST_F(LinkTest, DelayAndRate) {
  Link& link = make({microseconds(3), 1'000'000'000, {}});  // a bit a nanosecond
  link.deliver(frame(101));
  link.deliver(frame(21));
  run();
  ASSERT_EQ(sink_.at.size(), 2u);
  EXPECT_EQ(sink_.at[0].ns, (101 + 24) * 8 + 3000);
  EXPECT_EQ(sink_.at[1].ns, (101 + 24) * 8 + (21 + 24) * 8 + 3000);
}

TEST_F(LinkTest, KeepsOrderWithoutImpairments) {
  Link& link = make({});
  for (uint8_t i = 0; i < 100; i++) link.deliver(frame(60 + i % 7 * 100, i));
  run();
  ASSERT_EQ(sink_.frames.size(), 100u);
  for (uint8_t i = 0; i < 100; i++) EXPECT_EQ(sink_.frames[i][14], i);
}

TEST_F(LinkTest, LosesTheGivenShare) {
  Link& link = make({{}, 0, {.loss = 0.1}});
  for (int i = 0; i < 10'000; i++) link.deliver(frame(60));
  run();
  EXPECT_EQ(sink_.frames.size() + link.faults().lost, 10'000u);
  EXPECT_NEAR(static_cast<double>(link.faults().lost), 1000, 120);
}

TEST_F(LinkTest, RepeatsAndReorders) {
  Link& link =
      make({{},
            0,
            {.duplicate = 0.1, .duplicate_span = microseconds(10), .reorder = 0.2, .reorder_span = microseconds(10)}});
  for (int i = 0; i < 1000; i++) {
    link.deliver(frame(60, static_cast<uint8_t>(i)));
    events_.advance_to(events_.now() + microseconds(1));
  }
  run();
  EXPECT_EQ(sink_.frames.size(), 1000 + link.faults().duplicated);
  EXPECT_NEAR(static_cast<double>(link.faults().duplicated), 100, 40);
  EXPECT_NEAR(static_cast<double>(link.faults().reordered), 200, 60);
}

TEST_F(LinkTest, CorruptsOneToThreeBits) {
  Link& link = make({{}, 0, {.corrupt = 1}});
  const Frame good = frame(200, 0x45);  // IPv4
  for (int i = 0; i < 500; i++) link.deliver(Frame(good));
  run();
  for (const Frame& f : sink_.frames) {
    int flipped = 0;
    for (size_t i = 0; i < f.size(); i++) flipped += __builtin_popcount(f[i] ^ good[i]);
    EXPECT_LE(flipped, 3);
  }
  EXPECT_EQ(link.faults().corrupted, 500u);
}

TEST_F(LinkTest, ArpIsNotCorrupted) {
  Link& link = make({{}, 0, {.corrupt = 1}});
  Frame arp = frame(60);
  arp[13] = 0x06;
  for (int i = 0; i < 100; i++) link.deliver(Frame(arp));
  run();
  for (const Frame& f : sink_.frames) EXPECT_EQ(f, arp);
}

TEST_F(LinkTest, DropsTheNthThatMatches) {
  Link& link = make({});
  link.set_drop_rule(drop_nth(2, [](std::span<const uint8_t> f) { return f[14] % 2 == 1; }));
  for (uint8_t i = 0; i < 10; i++) link.deliver(frame(60, i));
  run();
  ASSERT_EQ(sink_.frames.size(), 9u);
  EXPECT_EQ(sink_.frames[3][14], 4);  // 3, the second odd one, is missing
  EXPECT_EQ(link.counters().dropped_by_rule, 1u);
}

TEST(EventQueueTest, OrderOfEqualInstants) {
  struct Recorder final : Actor {
    void on_event(uint64_t what, Instant) override { seen.push_back(what); }
    std::vector<uint64_t> seen;
  } recorder;
  EventQueue events(Instant{100});
  events.schedule(recorder, Instant{300}, 3);
  events.schedule(recorder, Instant{200}, 1);
  events.schedule(recorder, Instant{200}, 2);
  events.schedule(recorder, Instant{50}, 0);  // the past is now
  while (!events.empty()) events.step();
  EXPECT_EQ(recorder.seen, (std::vector<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(events.now(), Instant{300});
}

TEST(Determinism, TheSameSeedIsTheSameRun) {
  MixedOptions options;
  options.ops = 3000;
  options.impairments = {.loss = 0.02, .corrupt = 0.01, .duplicate = 0.02, .reorder = 0.02};
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    options.type = type;
    options.seed = 77;
    const MixedReport first = run_mixed(options);
    const MixedReport second = run_mixed(options);
    EXPECT_EQ(first.text(), second.text());
    options.seed = 78;
    EXPECT_NE(run_mixed(options).text(), first.text());
  }
}

}  // namespace
}  // namespace uroce::sim
