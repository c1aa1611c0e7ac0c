// Whether the program or the thread of its endpoint drives an engine, and how that thread waits. Time and events come
// in, decisions come out: no clock, no thread, no call.
//
// The program's own calls drive while it makes any; the thread sleeps then, and costs nothing. Waking is up to the
// sender of frames, which sees that they are not read, and rings (segment/bells.h). What a program does shows only in
// its calls, so the thread goes by these:
//
//   the program            the thread                          what ends its sleep, and when
//   polls its CQ           sleeps, rung by frames that are     it looks by itself after half the time for which the
//                          left lying                          program has polled, kLookFirst to kLookLast: timers
//                                                              are late by no more when the program stops
//   stops polling, and     the same at first; then it drives   frames of a sender that polls or whose thread is awake:
//   computes               until there is nothing to do, and   two looks of the sender, then each at once
//                          sleeps, rung by each frame
//   sleeps until an event  it was told: drives for kAwake,     each frame at once; timers on time
//                          then sleeps, rung by each frame
//   is a passive target    the same                            the same
//   polls its memory       the same at first; then it drives,  kCatnap: where such programs keep every CPU busy, a
//                          and naps where CPUs are scarce, for thread that sleeps is let in when it wakes, and a ring
//                          as long as it finds the frames      for every frame would cost more than the naps
//   is stopped (SIGSTOP)   is stopped                          its peers ring once, and wait no more
//   has several threads    sleeps while any of them polls      as with one
//
// When a NIC does not notice frames that are left lying, the thread looks every kLookUnwoken while the program
// polls. When it cannot wake a thread at all, the thread sleeps for short times instead, up to kSleepMax when nothing
// has come for a while.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "host/endpoint_config.h"
#include "uroce/time.h"

namespace uroce {

class Driving {
 public:
  // A program that polls drives every microsecond or so. When it has not driven for this long, it is doing something
  // else.
  static constexpr Duration kDrivenRecently = microseconds(100);
  static constexpr Duration kDrivenJustNow = microseconds(5);
  /// A pause takes several times its length off the time for which the program counts as polling: a program that lost
  /// its CPU once still polls, one that looks in now and then does not.
  static constexpr int64_t kPauseCosts = 5;
  /// A running program may be away for this long because others have its CPU.
  static constexpr Duration kPreempted = milliseconds(4);
  static constexpr Duration kLookFirst = microseconds(300);
  static constexpr Duration kLookLast = milliseconds(10);
  /// While sent frames lie unread, their sender looks this often: a little less often than Bells::kLook.
  static constexpr Duration kWatch = microseconds(60);
  /// The thread polls for this long after the last frame. Waking it up costs both sides more than that.
  static constexpr Duration kAwake = microseconds(150);
  static constexpr Duration kShortest = microseconds(10);  // of a sleep
  /// How often capture and port are looked after.
  static constexpr Duration kLongest = milliseconds(100);

  // When nothing wakes the thread: short sleeps, longer each time.
  static constexpr Duration kLookUnwoken = microseconds(300);
  static constexpr Duration kSleepMin = microseconds(50);
  static constexpr Duration kSleepMax = milliseconds(1);
  static constexpr Duration kSleepNoQps = milliseconds(5);
  /// A turn and two switches cost 10 us. A thread that had its CPU for longer than it slept has had its share, and the
  /// kernel then lets it in at the next tick, 4 ms later: 10 % of the wake-ups of one that was awake for three times as
  /// long, 2 % of one that was for as long, 0.5 % of these naps. Naps of 20 to 30 us are not measurably better.
  static constexpr Duration kCatnap = microseconds(15);
  static constexpr Duration kBusyPatience = milliseconds(100);  // naps stay short for a program that is on the CPU

  explicit Driving(Progress progress) : progress_(progress) {}
  /// When the NIC wakes the thread: never; by each frame, if asked to; or also only by frames that are left lying.
  enum class Wakes : uint8_t { kNever, kAtOnce, kLeftLying };
  /// To be called before the thread's first question.
  void set_wakes(Wakes wakes) { wakes_ = wakes; }

  // For the program, under the engine's lock.
  /// It makes a turn.
  void note_driven(Instant now) {
    if (const Duration pause = now - last_driven(); pause > kDrivenRecently) [[unlikely]]
      polls_since_ns_.store(std::min(now.ns, polls_since().ns + pause.ns * kPauseCosts), std::memory_order_relaxed);
    last_driven_ns_.store(now.ns, std::memory_order_relaxed);
    program_turns_++;
  }
  /// The program waits, and does not drive any more. May be called by any thread.
  void note_waits() { last_driven_ns_.store(0, std::memory_order_relaxed); }

  // For the thread.
  enum class Do : uint8_t {
    kDrive,      // take the engine, and make turns
    kYield,      // give up the CPU, and look again
    kNap,        // sleep for a time; only `wake` ends it earlier
    kStandBack,  // sleep, rung by frames that are left lying
    kSleep,      // sleep, rung by each frame
  };
  struct Next {
    Do what = Do::kDrive;
    Duration longest;  // of a sleep
    bool operator==(const Next&) const = default;
  };
  /// The result of some turns.
  struct Burst {
    Instant at;  // of the last one
    uint32_t work = 0;
    Instant next_timeout;  // of engine and NIC
    bool waiting = false;  // there is something to send
    bool has_qps = false;
    bool program_busy = false;  // on a CPU, for whatever purpose
  };
  /// To be called before the engine is taken. `called`: the NIC has just woken the thread, or had frames when it was
  /// about to sleep.
  Next before(Instant now, bool called) const;
  /// To be called after turns.
  Next after(const Burst& burst);
  /// The thread has made turns, whether `rung` or not, and `found` something. If it was rung and found nothing, the
  /// program had been there before it. To be called under the engine's lock.
  void note_turns(Instant now, bool rung, bool found);
  /// The thread was told to look, or something has become due: it stays awake for a while.
  void note_told(Instant now) { last_work_ = now; }
  /// The thread yielded, and has the CPU again.
  void note_yielded(Instant before, Instant after);

  /// The program has driven so recently that it will go on.
  bool program_drives(Instant now) const {
    return now - last_driven() < (polls_memory(now) ? kDrivenJustNow : kDrivenRecently);
  }
  /// A program that waits for a byte of its memory to change looks like one that polls, since it makes calls between
  /// two waits. But the frames for which it waits are left lying.
  bool polls_memory(Instant now) const { return now < memory_until_; }
  /// Others wait for this CPU: a thread that yields it gets it back late, but one that sleeps gets it when it is woken.
  bool crowded(Instant now) const { return now < crowded_until_; }

 private:
  // A program whose frames are left lying several times in a row polls its memory; one that has lost its CPU leaves
  // them lying once. It counts as that for as long as the thread finds frames, nap after nap, and the program makes few
  // turns in between: one that polls its CQ makes a dozen during a nap. To try again now and then instead, leaving
  // frames to lie, made one hop in 25 of qperf's ten times as long. That the thread finds the frames is no proof by
  // itself, nor are few turns before one of them: ib_write_lat polls its CQ until the acknowledgement is there, and
  // then its memory, if the thread takes the two apart. So it is the average that counts.
  static constexpr int kLeftLying = 3;  // times within ...
  static constexpr Duration kLeftLyingWithin = milliseconds(2);
  static constexpr uint32_t kFewTurns = 4;                // between two frames; qperf makes one or two
  static constexpr Duration kMemory = milliseconds(5);    // from the last frame that the thread found so
  static constexpr Duration kUnpolled = milliseconds(5);  // without frames, it no longer counts as that
  static constexpr Duration kYieldWasLong = microseconds(50);
  static constexpr Duration kCrowdedFirst = milliseconds(1);
  static constexpr Duration kCrowdedMost = milliseconds(1000);

  Instant expected_until() const;
  Instant polls_since() const { return {polls_since_ns_.load(std::memory_order_relaxed)}; }
  Instant last_driven() const { return {last_driven_ns_.load(std::memory_order_relaxed)}; }
  Next nap_after(const Burst& burst);

  const Progress progress_;
  Wakes wakes_ = Wakes::kNever;
  std::atomic<int64_t> last_driven_ns_{0};  // by the program
  std::atomic<int64_t> polls_since_ns_{0};  // as if without a pause
  uint32_t program_turns_ = 0;              // since the thread found something; under the engine's lock

  // Used by the thread only.
  Instant memory_until_{0};
  uint32_t turns_a_find_ = 0;  // of the program, of late
  int lay_ = 0;                // how often frames were left lying, since ...
  Instant lay_since_{0};       // ... this; for the last time when the program ...
  Instant lay_after_{-1};      // ... had driven last at this time
  Instant last_work_{0};
  Duration nap_ = kSleepMin;
  Instant crowded_until_{0};
  Duration crowded_for_ = kCrowdedFirst;
};

}  // namespace uroce
