// The token bucket: rates on average, bursts at most, nothing lost to rounding.
#include "congestion/pacer.h"

#include <gmock/gmock.h>

#include "rates.h"

namespace uroce::test {
namespace {

constexpr Instant kStart{5'000'000'000};

/// Sends whenever the pacer is open, for `time`, looking at the clock every `tick`.
uint64_t bytes_in(Pacer& pacer, Duration time, Duration tick, uint32_t packet) {
  uint64_t bytes = 0;
  for (Instant now = kStart; now < kStart + time; now = now + tick) {
    while (pacer.open(now)) {
      pacer.on_sent(packet, now);
      bytes += packet;
    }
  }
  return bytes;
}

TEST(Pacer, WithoutBurstPacketsAreSpacedByTheirTime) {
  Pacer pacer;
  pacer.set_rate(10 * kGigabit, 0, kStart);
  EXPECT_TRUE(pacer.open(kStart));
  pacer.on_sent(1250, kStart);  // 10'000 bits: 1 us
  EXPECT_FALSE(pacer.open(kStart + nanoseconds(999)));
  EXPECT_EQ(pacer.open_at(), kStart + microseconds(1));
  pacer.on_sent(2500, kStart + microseconds(10));  // late: unused time is lost
  EXPECT_EQ(pacer.open_at(), kStart + microseconds(12));
}

TEST(Pacer, KeepsTheRateAtAnyPacketSizeAndClock) {
  for (const uint64_t rate : {10'000'000ull, 1'000'000'000ull, 9'999'999'999ull, 100'000'000'000ull}) {
    for (const uint32_t packet : {74u, 1082u, 4154u}) {
      for (const int64_t tick_ns : {1, 700, 5'000}) {
        Pacer pacer;
        // Enough burst to make up for a tick of the clock.
        const uint64_t burst = rate * static_cast<uint64_t>(tick_ns) / 8'000'000'000u + packet;
        pacer.set_rate(rate, static_cast<uint32_t>(burst), kStart);
        const Duration time = tick_ns == 1 ? milliseconds(1) : milliseconds(50);
        const double sent = static_cast<double>(bytes_in(pacer, time, nanoseconds(tick_ns), packet));
        const double expected = static_cast<double>(rate) / 8e9 * static_cast<double>(time.ns);
        EXPECT_LE(sent, expected + static_cast<double>(burst) + packet) << rate << " " << packet << " " << tick_ns;
        EXPECT_GE(sent, expected * 0.999 - packet) << rate << " " << packet << " " << tick_ns;
      }
    }
  }
}

TEST(Pacer, RoundingDoesNotAddUp) {
  Pacer pacer;
  pacer.set_rate(100 * kGigabit, 0, kStart);
  Instant now = kStart;
  for (int i = 0; i < 1000; i++) {
    pacer.on_sent(1082, now);  // 86.56 ns
    now = pacer.open_at();
  }
  EXPECT_EQ(now, kStart + nanoseconds(86'560));
}

TEST(Pacer, SilenceSavesUpNoMoreThanABurst) {
  Pacer pacer;
  pacer.set_rate(kGigabit, 8000, kStart);
  int packets = 0;
  for (const Instant now = kStart + milliseconds(100); pacer.open(now); packets++) pacer.on_sent(1000, now);
  EXPECT_EQ(packets, 9);  // eight, and the one that takes the bucket into debt
}

TEST(Pacer, ADebtIsPaidAtTheNewRate) {
  Pacer pacer;
  pacer.set_rate(kGigabit, 0, kStart);
  pacer.on_sent(1250, kStart);  // 10 us
  pacer.set_rate(10 * kGigabit, 0, kStart + microseconds(5));
  EXPECT_EQ(pacer.open_at(), kStart + nanoseconds(5'500));
  pacer.set_rate(kGigabit / 10, 0, kStart + microseconds(5));
  EXPECT_EQ(pacer.open_at(), kStart + microseconds(55));
}

TEST(Pacer, NoLimitForgetsTheDebt) {
  Pacer pacer;
  EXPECT_FALSE(pacer.limited());
  pacer.set_rate(kGigabit, 0, kStart);
  EXPECT_TRUE(pacer.limited());
  pacer.on_sent(1250, kStart);
  pacer.set_rate(0, 0, kStart);
  EXPECT_FALSE(pacer.limited());
  EXPECT_TRUE(pacer.open(kStart));
}

}  // namespace
}  // namespace uroce::test
