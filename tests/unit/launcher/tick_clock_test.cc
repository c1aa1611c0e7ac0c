// Ticks become time of day evenly between readings, and in order.
#include "uroce/tick_clock.h"

#include <gtest/gtest.h>

namespace uroce::launcher {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(TickClock, GoesEvenlyBetweenReadingsAndOnBeyondThem) {
  TickClock clock;
  clock.add({1000, Instant{10 * kSecond}});
  EXPECT_EQ(clock.time_of(5000).ns, 10 * kSecond) << "one reading says nothing of the rate";
  EXPECT_EQ(clock.ticks_in(milliseconds(1)), 0u);
  clock.add({3000, Instant{11 * kSecond}});  // 2000 ticks a second
  clock.add({4000, Instant{12 * kSecond}});  // and 1000
  EXPECT_EQ(clock.time_of(0).ns, 95 * kSecond / 10);
  EXPECT_EQ(clock.time_of(1000).ns, 10 * kSecond);
  EXPECT_EQ(clock.time_of(2000).ns, 105 * kSecond / 10);
  EXPECT_EQ(clock.time_of(3000).ns, 11 * kSecond);
  EXPECT_EQ(clock.time_of(3500).ns, 115 * kSecond / 10);
  EXPECT_EQ(clock.time_of(6000).ns, 14 * kSecond);
  EXPECT_EQ(clock.ticks_in(milliseconds(2000)), 3000u);
}

TEST(TickClock, ReadingsThatAreVeryCloseAreLeftOut) {
  TickClock clock;
  clock.add({1000, Instant{kSecond}});
  clock.add({1001, Instant{kSecond + 1'000'000}});
  EXPECT_EQ(clock.ticks_in(milliseconds(1)), 0u);
}

TEST(TickClock, NeverGoesBackOverManyReadings) {
  TickClock clock;
  uint64_t ticks = 77;
  int64_t last = 0;
  for (int i = 0; i < 1000; i++) {
    clock.add({ticks, Instant{kSecond * (i + 1) / 10}});
    for (uint64_t at = ticks; i != 0 && at < ticks + 300'000'000; at += 7'777'777) {
      ASSERT_GE(clock.time_of(at).ns, last);
      last = clock.time_of(at).ns;
    }
    last = 0;
    ticks += 290'000'000 + static_cast<uint64_t>(i) * 1'000 % 777;
  }
}

TEST(TickClock, ReadsBothClocks) {
  TickClock clock;
  const TickClock::Reading first = TickClock::read();
  const TickClock::Reading second = TickClock::read();
  EXPECT_GT(second.ticks, first.ticks);
  EXPECT_GE(second.time.ns, first.time.ns);
  EXPECT_GT(first.time.ns, 1'700'000'000 * kSecond);
}

}  // namespace
}  // namespace uroce::launcher
