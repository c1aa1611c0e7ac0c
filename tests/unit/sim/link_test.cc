// The simulated cable and clock themselves.
#include "sim/link.h"

#include <gtest/gtest.h>

#include "operations.h"
#include "sim/world.h"
#include "transport/counters.h"

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

/// An IP frame of `bytes` bytes; the first byte of its payload is `mark`.
Frame ip_frame(uint32_t bytes, uint8_t mark = 0) {
  Frame f(bytes);
  f[12] = 0x08;
  f[14] = mark;
  return f;
}

class LinkTest : public testing::Test {
 protected:
  Link& make(const LinkConfig& config) {
    link_ = std::make_unique<Link>(events_, random_, sink_, config);
    return *link_;
  }
  void run() {
    while (!events_.empty()) events_.step();
  }

  EventQueue events_{Instant{0}};
  SeededRandom random_{7};
  Arrivals sink_{events_};
  std::unique_ptr<Link> link_;
};

TEST_F(LinkTest, DelayAndRate) {
  Link& link = make({microseconds(3), 1'000'000'000, {}});  // a bit a nanosecond
  link.deliver(ip_frame(101));
  link.deliver(ip_frame(21));
  run();
  ASSERT_EQ(sink_.at.size(), 2u);
  EXPECT_EQ(sink_.at[0].ns, (101 + 24) * 8 + 3000);
  EXPECT_EQ(sink_.at[1].ns, (101 + 24) * 8 + (21 + 24) * 8 + 3000);
}

TEST_F(LinkTest, KeepsOrderWithoutImpairments) {
  Link& link = make({});
  for (uint8_t i = 0; i < 100; i++) link.deliver(ip_frame(60 + i % 7 * 100, i));
  run();
  ASSERT_EQ(sink_.frames.size(), 100u);
  for (uint8_t i = 0; i < 100; i++) EXPECT_EQ(sink_.frames[i][14], i);
}

TEST_F(LinkTest, LosesTheGivenShare) {
  Link& link = make({{}, 0, {.loss = 0.1}});
  for (int i = 0; i < 10'000; i++) link.deliver(ip_frame(60));
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
    link.deliver(ip_frame(60, static_cast<uint8_t>(i)));
    const Instant next = events_.now() + microseconds(1);
    while (events_.next() < next) events_.step();
    events_.advance_to(next);
  }
  run();
  EXPECT_EQ(sink_.frames.size(), 1000 + link.faults().duplicated);
  EXPECT_NEAR(static_cast<double>(link.faults().duplicated), 100, 40);
  EXPECT_NEAR(static_cast<double>(link.faults().reordered), 200, 60);
}

TEST_F(LinkTest, CorruptsOneToThreeBits) {
  Link& link = make({{}, 0, {.corrupt = 1}});
  const Frame good = ip_frame(200, 0x45);  // IPv4
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
  Frame arp = ip_frame(60);
  arp[13] = 0x06;
  for (int i = 0; i < 100; i++) link.deliver(Frame(arp));
  run();
  for (const Frame& f : sink_.frames) EXPECT_EQ(f, arp);
}

TEST_F(LinkTest, DropsTheNthThatMatches) {
  Link& link = make({});
  link.set_drop_rule(drop_nth(2, [](std::span<const uint8_t> f) { return f[14] % 2 == 1; }));
  for (uint8_t i = 0; i < 10; i++) link.deliver(ip_frame(60, i));
  run();
  ASSERT_EQ(sink_.frames.size(), 9u);
  EXPECT_EQ(sink_.frames[3][14], 4);  // 3, the second odd one, is missing
  EXPECT_EQ(link.counters().dropped_by_rule, 1u);
}

TEST(EventQueueTest, OrderOfEqualInstants) {
  struct Recorder final : Actor<Recorder> {
    using Event = uint32_t;
    void on_event(Event event, Instant) { seen.push_back(event); }
    std::vector<uint32_t> seen;
  } recorder;
  EventQueue events(Instant{100});
  events.schedule(recorder, Instant{300}, 3);
  events.schedule(recorder, Instant{200}, 1);
  events.schedule(recorder, Instant{200}, 2);
  events.schedule(recorder, Instant{50}, 0);  // a time in the past means now
  while (!events.empty()) events.step();
  EXPECT_EQ(recorder.seen, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(events.now(), Instant{300});
}

/// An event carries a value of the actor's own type.
TEST(EventQueueTest, EventsComeBackAsTheyWere) {
  struct Lamp final : Actor<Lamp> {
    struct Event {
      enum class Kind : uint8_t { kOn, kOff };
      Kind kind;
      uint16_t room = 0;
      bool operator==(const Event&) const = default;
    };
    void on_event(Event event, Instant) { seen.push_back(event); }
    std::vector<Event> seen;
  } lamp;
  using Kind = Lamp::Event::Kind;
  EventQueue events(Instant{100});
  events.schedule(lamp, Instant{400'000}, {Kind::kOff, 0xFFFF});
  events.schedule(lamp, Instant{200}, {Kind::kOn, 7});
  events.schedule(lamp, Instant{300}, {Kind::kOff});
  while (!events.empty()) events.step();
  EXPECT_EQ(lamp.seen, (std::vector<Lamp::Event>{{Kind::kOn, 7}, {Kind::kOff, 0}, {Kind::kOff, 0xFFFF}}));
}

struct Mailbox final : Actor<Mailbox> {
  enum class Event : uint8_t { kLetter, kBell };
  void on_event(Event event, Frame&& frame, Instant) { seen.emplace_back(event, std::move(frame)); }
  std::vector<std::pair<Event, Frame>> seen;
};

TEST(EventQueueTest, AnEventBringsItsFrame) {
  Mailbox mailbox;
  EventQueue events(Instant{100});
  Frame letter = ip_frame(60, 42);
  const uint8_t* const bytes = letter.data();
  events.schedule(mailbox, Instant{300}, Mailbox::Event::kLetter, std::move(letter));
  events.schedule(mailbox, Instant{200}, Mailbox::Event::kBell);
  while (!events.empty()) events.step();
  ASSERT_EQ(mailbox.seen.size(), 2u);
  EXPECT_EQ(mailbox.seen[0].first, Mailbox::Event::kBell);
  EXPECT_TRUE(mailbox.seen[0].second.empty());
  EXPECT_EQ(mailbox.seen[1].first, Mailbox::Event::kLetter);
  EXPECT_EQ(mailbox.seen[1].second.data(), bytes);
  EXPECT_EQ(mailbox.seen[1].second, ip_frame(60, 42));
}

/// The buffer given back last is used first, which shows which were given back. The actor is gone by then.
TEST(EventQueueTest, FramesThatNeverArriveAreGivenBack) {
  auto mailbox = std::make_unique<Mailbox>();
  auto events = std::make_unique<EventQueue>(Instant{100});
  std::vector<const uint8_t*> buffers;
  for (const int64_t ns : {200, 200, 200, 70'000}) {  // the first is handled; two of that instant leave with it
    Frame letter = ip_frame(60, 1);
    buffers.push_back(letter.data());
    events->schedule(*mailbox, Instant{ns}, Mailbox::Event::kLetter, std::move(letter));
  }
  events->step();
  buffers.erase(buffers.begin());
  const Frame handled = std::move(mailbox->seen.front().second);
  mailbox.reset();
  events.reset();
  std::vector<Frame> again;
  while (again.size() < buffers.size()) again.push_back(ip_frame(60, 2));
  for (size_t i = 0; i < again.size(); i++) EXPECT_EQ(again[i].data(), buffers[buffers.size() - 1 - i]);
}

TEST(Determinism, TheSameSeedIsTheSameRun) {
  const fabric::ImpairmentConfig faults{.loss = 0.02, .corrupt = 0.01, .duplicate = 0.02, .reorder = 0.02};
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    const std::string first = Operations({.type = type, .seed = 77, .faults = faults}).run();
    EXPECT_EQ(first, Operations({.type = type, .seed = 77, .faults = faults}).run());
    EXPECT_NE(first.find("events"), std::string::npos) << first;
    EXPECT_NE(first, Operations({.type = type, .seed = 78, .faults = faults}).run());
  }
}

}  // namespace
}  // namespace uroce::sim
