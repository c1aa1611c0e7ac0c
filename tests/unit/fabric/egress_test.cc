// The order in which queues are served, and the caps in front of them.
#include "fabric/egress.h"

#include <gtest/gtest.h>

#include "fabric/delay_line.h"
#include "rig.h"

namespace uroce::fabric::test {
namespace {

uint8_t priority_of(const Bytes& frame) { return inspect(frame).dscp() >> 3; }

TEST(Egress, StrictPrioritiesFirstTheHighestNumberFirst) {
  Rig rig(ports(2));  // 6 and 7 are strict
  for (const int priority : {2, 6, 0, 7, 6}) rig.send({.priority = static_cast<uint8_t>(priority)});
  EXPECT_EQ(priority_of(rig.take(1)), 7);
  EXPECT_EQ(priority_of(rig.take(1)), 6);
  rig.send({.priority = 7});
  EXPECT_EQ(priority_of(rig.take(1)), 7);
  EXPECT_EQ(priority_of(rig.take(1)), 6);
  EXPECT_EQ(priority_of(rig.take(1)), 0);
  EXPECT_EQ(priority_of(rig.take(1)), 2);
}

TEST(Egress, FramesOfAPriorityKeepTheirOrder) {
  Rig rig(ports(2));
  for (uint32_t i = 0; i < 100; i++) rig.send({.psn = i});
  for (uint32_t i = 0; i < 100; i++) EXPECT_EQ(rig.take(1), frame_bytes({.psn = i}));
}

/// Bytes that each priority gets out of `frames` frames while every one of `sizes` has frames waiting.
std::array<uint64_t, kPriorities> shares(const SwitchConfig& config, const std::array<uint32_t, kPriorities>& sizes,
                                         unsigned frames, unsigned* longest_gap = nullptr) {
  Rig rig(config, 1, 9216);
  std::array<uint64_t, kPriorities> bytes{};
  std::array<unsigned, kPriorities> last{};
  const auto send = [&](unsigned i) {
    if (sizes[i] != 0) rig.send({.priority = static_cast<uint8_t>(i), .bytes = sizes[i]});
  };
  for (unsigned i = 0; i < kPriorities; i++) {
    send(i);
    send(i);
  }
  for (unsigned n = 0; n < frames; n++) {
    const Bytes frame = rig.take(1);
    const unsigned priority = priority_of(frame);
    bytes[priority] += frame.size();
    if (longest_gap != nullptr) *longest_gap = std::max(*longest_gap, n - last[priority]);
    last[priority] = n;
    send(priority);
  }
  return bytes;
}

TEST(Egress, WeightsShareTheBytesWhateverTheFrames) {
  SwitchConfig config = ports(2);
  config.priorities[0].weight = 1;
  config.priorities[1].weight = 2;
  config.priorities[2].weight = 4;
  config.priorities[3].weight = 3;
  const auto bytes = shares(config, {64, 9000, 1000, 200}, 100'000);
  const double all = static_cast<double>(bytes[0] + bytes[1] + bytes[2] + bytes[3]);
  EXPECT_NEAR(static_cast<double>(bytes[0]) / all, 0.1, 0.001);
  EXPECT_NEAR(static_cast<double>(bytes[1]) / all, 0.2, 0.001);
  EXPECT_NEAR(static_cast<double>(bytes[2]) / all, 0.4, 0.001);
  EXPECT_NEAR(static_cast<double>(bytes[3]) / all, 0.3, 0.001);
}

TEST(Egress, NobodyStarvesUnderWeights) {
  SwitchConfig config = ports(2);
  config.priorities[5].weight = 100;
  unsigned longest_gap = 0;
  shares(config, {9000, 64, 0, 0, 0, 64}, 50'000, &longest_gap);
  // A round gives priority 5 no more than 204,800 bytes, that is 3200 of its frames, and priority 1 32 frames; priority
  // 0 has saved up its 9000 bytes after at most five rounds.
  EXPECT_LE(longest_gap, 5u * (3200 + 33));
}

TEST(Egress, AQueueThatRanEmptySavedNothing) {
  SwitchConfig config = ports(2);
  Rig rig(config);
  // Priority 1 is alone, and its queue empty, for long; then both have many frames.
  for (unsigned i = 0; i < 1000; i++) {
    rig.send({.priority = 1});
    EXPECT_EQ(rig.take_all(1), 1u);
  }
  for (unsigned i = 0; i < 100; i++) rig.send({.priority = 1});
  for (unsigned i = 0; i < 100; i++) rig.send({.priority = 2});
  unsigned first = 0;
  for (unsigned i = 0; i < 40; i++) first += priority_of(rig.take(1)) == 1 ? 1 : 0;
  EXPECT_NEAR(first, 20, 2);
}

TEST(Egress, APausedQueueDoesNotHoldUpTheOthers) {
  Rig rig(ports(2));
  for (unsigned i = 0; i < 10; i++) rig.send({.priority = 1});
  for (unsigned i = 0; i < 10; i++) rig.send({.priority = 2});
  rig.pause(1, 1 << 1, 0xffff);
  for (unsigned i = 0; i < 10; i++) EXPECT_EQ(priority_of(rig.take(1)), 2);
  EXPECT_EQ(rig.take(1), Bytes{});
  rig.pause(1, 1 << 1, 0);
  EXPECT_EQ(rig.take_all(1), 10u);
}

TEST(RateCap, AMillionFramesTakeWhatTheyShould) {
  // 1000 bytes and 24 more at 100G are 81.92 ns each.
  RateCap cap(100'000'000'000);
  Instant now{5'000};
  for (unsigned i = 0; i < 1'000'000; i++) {
    now = std::max(now, cap.ready_at());
    ASSERT_TRUE(cap.may_send(now));
    cap.on_sent(1000, now);
    ASSERT_FALSE(cap.may_send(now));
  }
  EXPECT_EQ(cap.busy_until().ns, 5'000 + 81'920'000);
}

TEST(RateCap, ABurstMakesUpForLatePolls) {
  // 8 bits a nanosecond, polled every 10 us: 10,000 bytes fall due between two polls.
  RateCap cap(8'000'000'000, 20'000);
  uint64_t bytes = 0;
  Instant now{0};
  for (; now.ns < 100'000'000; now = now + microseconds(10)) {
    while (cap.may_send(now)) {
      cap.on_sent(976, now);
      bytes += 1000;
    }
  }
  // At the last poll, 99.99 ms: the bytes that fell due, the burst, and the frame that begins within it.
  EXPECT_EQ(bytes, 99'990'000u + 20'000 + 1'000);
  RateCap none;
  EXPECT_TRUE(none.may_send({INT64_MIN / 4}));
  none.on_sent(1'000'000, {0});
  EXPECT_TRUE(none.may_send({0}));
}

TEST(RateCap, OfAPortOfTheSwitch) {
  SwitchConfig config = ports(2);
  config.ports[1].rate_cap = 8'000'000'000;
  Rig rig(config);
  for (unsigned i = 0; i < 3; i++) rig.send({.bytes = 976});
  EXPECT_NE(rig.take(1), Bytes{});
  rig.ready.clear();
  EXPECT_EQ(rig.take(1), Bytes{});
  EXPECT_EQ(rig.fabric->next_event(), rig.now + nanoseconds(1000));
  rig.now = rig.now + nanoseconds(999);
  rig.fabric->on_time(rig.now);
  EXPECT_TRUE(rig.ready.empty());
  rig.now = rig.now + nanoseconds(1);
  rig.fabric->on_time(rig.now);
  EXPECT_EQ(rig.ready, std::vector<PortId>{1});
  EXPECT_NE(rig.take(1), Bytes{});
  EXPECT_EQ(rig.take(1), Bytes{});
  rig.fabric->set_rate_cap(1, 0, 0);
  rig.ready.clear();
  EXPECT_LE(rig.fabric->next_event(), rig.now);
  rig.fabric->on_time(rig.now);
  EXPECT_EQ(rig.ready, std::vector<PortId>{1});
  EXPECT_NE(rig.take(1), Bytes{});
}

TEST(BufferPool, LendsAndTakesBack) {
  BufferPool pool(100, 3);
  EXPECT_FALSE(pool.allocate(101));
  FabricFrame a = pool.allocate(100);
  const FabricFrame b = pool.allocate(1);
  std::fill(a.data, a.data + 100, uint8_t{7});
  const FabricFrame c = pool.clone(a);
  ASSERT_TRUE(a && b && c);
  EXPECT_TRUE(std::equal(a.data, a.data + 100, c.data));
  EXPECT_NE(a.data, c.data);
  EXPECT_FALSE(pool.allocate(1));
  EXPECT_FALSE(pool.clone(a));
  EXPECT_EQ(pool.in_use(), 3u);
  pool.release(a);
  pool.release(b);
  pool.release(c);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.buffers(), 3u);
}

TEST(DelayLine, InOrderOfTimeAndThenOfArrival) {
  DelayLine line(5);
  uint8_t byte[5] = {};
  const int64_t when[5] = {30, 10, 20, 10, 20};
  for (unsigned i = 0; i < 5; i++) EXPECT_TRUE(line.push({&byte[i], 1, nullptr}, {when[i]}));
  EXPECT_FALSE(line.push({&byte[0], 1, nullptr}, {0}));
  EXPECT_EQ(line.next(), (Instant{10}));
  EXPECT_FALSE(line.pop({9}));
  for (const unsigned i : {1, 3, 2, 4}) EXPECT_EQ(line.pop({29}).data, &byte[i]);
  EXPECT_FALSE(line.pop({29}));
  EXPECT_EQ(line.pop({30}).data, &byte[0]);
  EXPECT_EQ(line.next(), Instant::never());
  EXPECT_EQ(line.size(), 0u);
}

}  // namespace
}  // namespace uroce::fabric::test
