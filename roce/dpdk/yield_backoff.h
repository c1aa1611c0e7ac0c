// How often a thread that polls in vain offers its CPU to others.
//
// The peer that it waits for may need this very CPU, so it has to yield. When no other thread wants the CPU, a yield is
// a system call for nothing, and costs as much as a few dozen polls. So the result of a yield decides when the next one
// is due:
//
//   nobody ran               the thread polls for a part of the time for which none has, before it yields again: one
//   that
//                            was away for some time and comes back waits for an eighth of that time at most, and never
//                            longer than kLongest
//   others ran, and soon     each poll that finds nothing yields
//   gave the CPU back
//   others kept it for a     the thread polls on, at first for as long as that yield took, and only then yields again
//   time slice
//
// A thread that computes keeps the CPU for a time slice, which is thousands of polls. Programs that yielded to such
// threads at each poll had 3 % of their CPUs in place of a half, and never both at once: a message and its answer took
// two slices, as each found the other one away. Who keeps its share meets a peer on another CPU for a part of the time,
// and then they exchange thousands.
//
// But a peer on this CPU may keep it for as long, with a long message or because it polls on itself, and the thread
// that computes may be the one that is waited for. So polling on has to pay. What comes soon after a poll in vain,
// while this thread keeps the CPU, was sent from another CPU: then the next polling on is whole again. When nothing
// came, the next is half as long, down to a sixteenth. That is less than a time slice to a peer, so two that share a
// CPU do not keep each other polling, and it is long enough to meet one that has come to another CPU.
//
// Each thread has its own: what a yield tells is of the CPU where this thread runs. Reads no clock and makes no calls.
#pragma once

#include <algorithm>
#include <cstdint>

#include "uroce/time.h"

namespace uroce {

class YieldBackoff {
 public:
  /// A thread that has found something does not yield for this long, since it may find more.
  static constexpr Duration kPatience = microseconds(4);
  static constexpr Duration kLongest = microseconds(50);
  static constexpr int64_t kParts = 8;
  /// A yield that took longer was more than a call: another thread ran. A shorter one may be either.
  static constexpr Duration kOthersRan = microseconds(3);
  /// One that took as long as this cost a time slice: those are one to some milliseconds long (1.4 and 4 ms on Linux
  /// with two CPUs), while threads that poll for short messages and yield have the CPU for some microseconds.
  static constexpr Duration kTimeSlice = microseconds(500);
  /// Several slices in a row may be given away by one yield. They are not all made up for.
  static constexpr Duration kMostKept = milliseconds(10);
  /// The least part of a slice for which a thread polls on, to which nothing came.
  static constexpr int64_t kLeastPart = 16;
  /// Polling on has paid when something came for each of these, and more than once: of a peer's long message on this
  /// CPU, now and then a frame or an acknowledgement looks as if it had come from another one.
  static constexpr Duration kPaidFor = microseconds(200);
  static constexpr int64_t kLeastCame = 2;
  /// Polls that are further apart have something between them: other work of the program, or other threads, since the
  /// kernel ends slices, too. Of that time no more than this counts as polling.
  static constexpr Duration kAway = microseconds(50);
  /// Between polls that are no further apart no peer on this CPU has run: two switches and its kPatience take longer.
  static constexpr Duration kUndisturbed = microseconds(5);

  /// The calling thread's, for all endpoints that it polls.
  static YieldBackoff& of_this_thread() {
    [[gnu::tls_model("initial-exec")]] static constinit thread_local YieldBackoff own;
    return own;
  }

  /// A poll found something.
  void on_work(Instant now) {
    if (in_vain_ && now - last_poll_ <= kUndisturbed && now < next_) came_++;
    in_vain_ = false;
    note_poll(now);
    next_ = std::max(next_, now + kPatience);
  }
  /// A poll found nothing. Whether to yield.
  bool on_nothing(Instant now) {
    in_vain_ = true;
    note_poll(now);
    return now >= next_;
  }
  /// A yield returned at `now`, after it `took` so long. `others_ran`: the kernel says so, of a short one.
  void on_yielded(Instant now, Duration took, bool others_ran) {
    if (polled_on_) part_ = came_ >= has_to_come_ ? 1 : std::min(part_ * 2, kLeastPart);
    polled_on_ = in_vain_ = false;
    came_ = 0;
    last_poll_ = now;
    if (took <= kOthersRan && !others_ran && others_ran_ != kUnknown) {
      next_ = now + nanoseconds(std::min((now - others_ran_).ns / kParts, kLongest.ns));
      return;
    }
    others_ran_ = now;
    polled_on_ = took >= kTimeSlice;
    const Duration polls_on = nanoseconds(polled_on_ ? std::min(took, kMostKept).ns / part_ : 0);
    next_ = now + polls_on;
    has_to_come_ = std::max(kLeastCame, polls_on.ns / kPaidFor.ns);
  }

 private:
  static constexpr Instant kUnknown{INT64_MIN};

  void note_poll(Instant now) {
    if (now - last_poll_ > kAway && next_ > last_poll_) [[unlikely]]
      next_ = next_ + (now - (last_poll_ + kAway));
    last_poll_ = now;
  }

  Instant last_poll_{0};           // or when a yield returned
  Instant next_{0};                // when to yield next
  Instant others_ran_ = kUnknown;  // when another thread ran here last; at first, when this was asked
  int64_t part_ = 1;               // it polls on for one `part_`th of a slice
  bool polled_on_ = false;         // since the last yield, as that cost a time slice
  bool in_vain_ = false;           // the last poll, and none has found anything since
  int64_t came_ = 0;               // what came soon after polls in vain, before the next yield was due
  int64_t has_to_come_ = 0;
};

}  // namespace uroce
