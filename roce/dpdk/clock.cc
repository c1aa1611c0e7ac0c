#include "dpdk/clock.h"

#include <ctime>

namespace uroce {
namespace {

constexpr int64_t kMeasureNs = 2'000'000;

struct Reading {
  uint64_t ticks;
  int64_t ns;
};

/// The counter and the clock at the same moment: of several tries, the one that took the least time.
Reading read_both() {
  constexpr int kTriesToRead = 8;
  Reading best{};
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < kTriesToRead; i++) {
    timespec ts{};
    const uint64_t before = rte_rdtsc_precise();
    clock_gettime(CLOCK_MONOTONIC, &ts);
    const uint64_t after = rte_rdtsc_precise();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {before + shortest / 2, int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec};
  }
  return best;
}

uint64_t measure_tsc_hz() {
  const Reading begin = read_both();
  Reading end = read_both();
  while (end.ns - begin.ns < kMeasureNs) end = read_both();
  return static_cast<uint64_t>(static_cast<unsigned __int128>(end.ticks - begin.ticks) * 1'000'000'000 /
                               static_cast<uint64_t>(end.ns - begin.ns));
}

}  // namespace

uint64_t tsc_hz() {
  if (const uint64_t known = rte_get_tsc_hz(); known != 0) return known;
  static const uint64_t measured = measure_tsc_hz();
  return measured;
}

}  // namespace uroce
