// How often a program that polls in vain offers its CPU to others.
//
// The peer that it waits for may need this very CPU, so it has to yield. When no other thread wants the CPU, a yield is
// a system call for nothing, and costs as much as a few dozen polls. So the result of a yield decides when the next one
// is due:
//
//   nobody ran               the program polls for a part of the time for which none has, before it yields again: a
//                            thread that was away for some time and comes back waits for an eighth of that time at
//                            most, and never longer than kLongest
//   a thread that yields,    each poll that finds nothing yields
//   too, or sleeps
//   a thread that computes   the program polls for as long as that yield took, and only then yields again
//
// A thread that computes keeps the CPU for a time slice, which is thousands of polls. Programs that yielded to such
// threads at each poll had 3 % of their CPUs in place of a half, and never both at once: a message and its answer took
// two slices, as each found the other one away. Who keeps its share meets a peer on another CPU for a part of the time,
// and then they exchange thousands. Should the peer need this very CPU, they lose no more than half of what they had.
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
  /// One that took as long as this went to a thread that computes: slices are one to some milliseconds long (1.4 and 4
  /// ms on Linux with two CPUs), while threads that poll and yield have the CPU for some microseconds.
  static constexpr Duration kTimeSlice = microseconds(500);
  /// Several slices in a row may be given away by one yield. They are not all made up for.
  static constexpr Duration kMostKept = milliseconds(10);
  /// Polls that are further apart have something between them: other work of the program, or other threads, since the
  /// kernel ends slices, too. That is no time for which it has polled.
  static constexpr Duration kAway = microseconds(50);

  /// A poll found something.
  void on_work(Instant now) {
    note_poll(now);
    if (next() < now + kPatience) set_next(now + kPatience);
  }
  /// A poll found nothing. Whether to yield.
  bool on_nothing(Instant now) {
    note_poll(now);
    return now >= next();
  }
  /// A yield returned at `now`, after it `took` so long. `others_ran`: the kernel says so, of a short one.
  void on_yielded(Instant now, Duration took, bool others_ran) {
    last_poll_ns_.store(now.ns, std::memory_order_relaxed);
    const int64_t last = others_ran_ns_.load(std::memory_order_relaxed);
    if (took > kOthersRan || others_ran || last == kUnknown) {
      others_ran_ns_.store(now.ns, std::memory_order_relaxed);
      set_next(took < kTimeSlice ? now : now + std::min(took, kMostKept));
    } else {
      set_next(now + nanoseconds(std::min((now.ns - last) / kParts, kLongest.ns)));
    }
  }

 private:
  static constexpr int64_t kUnknown = INT64_MIN;

  Instant next() const { return {next_ns_.load(std::memory_order_relaxed)}; }
  void set_next(Instant when) { next_ns_.store(when.ns, std::memory_order_relaxed); }
  void note_poll(Instant now) {
    const Instant last{last_poll_ns_.load(std::memory_order_relaxed)};
    last_poll_ns_.store(now.ns, std::memory_order_relaxed);
    if (now - last > kAway && next() > last) [[unlikely]]
      set_next(next() + (now - (last + kAway)));
  }

  std::atomic<int64_t> last_poll_ns_{0};          // or when a yield returned
  std::atomic<int64_t> next_ns_{0};               // when to yield next
  std::atomic<int64_t> others_ran_ns_{kUnknown};  // when another thread ran here last; at first, when this was asked
};

}  // namespace uroce
