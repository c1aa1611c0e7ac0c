// How often a program that polls in vain offers its CPU to others.
//
// The peer that it waits for may need this very CPU, so it has to yield. When no other thread wants the CPU, a yield is
// a system call for nothing, and costs as much as a few dozen polls. So the result of a yield decides when the next one
// is due. While other threads run here, each poll that finds nothing yields. When none has run for a while, the program
// polls for a part of that while before it yields again: a thread that was away for some time and comes back waits for
// an eighth of that time at most, and never longer than kLongest.
//
// Reads no clock and makes no calls. Any thread may call it at any time: what two threads report at once is about the
// same CPUs, and the later report stays.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "uroce/time.h"

namespace uroce {

class YieldBackoff {
 public:
  /// A program that has found something does not yield for this long, since it may find more.
  static constexpr Duration kPatience = microseconds(4);
  static constexpr Duration kLongest = microseconds(50);
  static constexpr int64_t kParts = 8;
  /// A yield that took longer was more than a call: another thread ran. A shorter one may be either.
  static constexpr Duration kOthersRan = microseconds(3);

  /// A poll found something.
  void on_work(Instant now) {
    if (next() < now + kPatience) set_next(now + kPatience);
  }
  /// After a poll that found nothing: whether to yield.
  bool due(Instant now) const { return now >= next(); }
  /// A yield returned at `now`.
  void on_yielded(Instant now, bool others_ran) {
    const int64_t last = others_ran_ns_.load(std::memory_order_relaxed);
    if (others_ran || last == kUnknown) {
      others_ran_ns_.store(now.ns, std::memory_order_relaxed);
      set_next(now);
    } else {
      set_next(now + nanoseconds(std::min((now.ns - last) / kParts, kLongest.ns)));
    }
  }

 private:
  static constexpr int64_t kUnknown = INT64_MIN;

  Instant next() const { return {next_ns_.load(std::memory_order_relaxed)}; }
  void set_next(Instant when) { next_ns_.store(when.ns, std::memory_order_relaxed); }

  std::atomic<int64_t> next_ns_{0};               // when to yield next
  std::atomic<int64_t> others_ran_ns_{kUnknown};  // when another thread ran here last; at first, when this was asked
};

}  // namespace uroce
