#include "tick_clock.h"

#include <rte_cycles.h>

#include <algorithm>
#include <ctime>

namespace uroce::launcher {
namespace {

constexpr Duration kApart = milliseconds(50);
constexpr int kTries = 4;

}  // namespace

TickClock::Reading TickClock::read() {
  Reading best;
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < kTries; i++) {
    timespec ts{};
    const uint64_t before = rte_rdtsc_precise();
    clock_gettime(CLOCK_REALTIME, &ts);
    const uint64_t between = rte_rdtsc_precise() - before;
    if (between >= shortest) continue;
    shortest = between;
    best = {before + between / 2, Instant{int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec}};
  }
  return best;
}

void TickClock::add(const Reading& reading) {
  if (!readings_.empty() && reading.time - readings_.back().time < kApart && reading.time >= readings_.back().time)
    return;
  readings_.push_back(reading);
  if (readings_.size() > kReadings) readings_.pop_front();
}

Instant TickClock::time_of(uint64_t ticks) const {
  if (readings_.empty()) return Instant{0};
  if (readings_.size() == 1) return readings_.front().time;
  auto after = std::upper_bound(readings_.begin() + 1, readings_.end() - 1, ticks,
                                [](uint64_t t, const Reading& r) { return t < r.ticks; });
  const Reading& b = *after;
  const Reading& a = *(after - 1);
  const double rate = static_cast<double>((b.time - a.time).ns) / static_cast<double>(b.ticks - a.ticks);
  return a.time + Duration{static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(ticks - a.ticks)) * rate)};
}

uint64_t TickClock::ticks_in(Duration duration) const {
  if (readings_.size() < 2) return 0;
  const Duration passed = readings_.back().time - readings_.front().time;
  if (passed.ns <= 0) return 0;
  const double rate =
      static_cast<double>(readings_.back().ticks - readings_.front().ticks) / static_cast<double>(passed.ns);
  return static_cast<uint64_t>(static_cast<double>(duration.ns) * rate);
}

}  // namespace uroce::launcher
