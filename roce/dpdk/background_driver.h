// The thread of an endpoint: it opens the port, and drives the engine when the program does not. When it does, and how
// it waits meanwhile, is decided in driving.h; here are the clock, the locks and the sleeps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "dpdk/driving.h"
#include "dpdk/endpoint.h"
#include "uroce/time.h"

namespace uroce {

class EndpointImpl;

/// Whether the program uses the CPU, for whatever purpose, asked by the background thread, whose own time does not
/// count. Measured over windows that are long enough for the kernel's accounting.
class ProgramLoad {
 public:
  bool busy(Instant now);

 private:
  Instant window_start_{0};
  int64_t used_before_ns_ = 0;
  bool busy_ = false;
};

/// Ends a sleep that also waits for the NIC.
class WakeUp {
 public:
  WakeUp() = default;
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  /// False when no descriptor can be had.
  bool open();
  bool is_open() const { return fd_ >= 0; }
  /// May be called by any thread.
  void wake() const;
  /// Sleeps until `nic_fd` is readable, `wake` is called, or the time is over. Returns whether `nic_fd` is readable.
  bool wait(int nic_fd, Duration longest) const;

 private:
  int fd_ = -1;
};

class BackgroundDriver {
 public:
  BackgroundDriver(EndpointImpl& endpoint, Progress progress) : endpoint_(endpoint), driving_(progress) {}

  /// Returns when the thread has opened the port, or false, with one line in `error`, when it could not.
  bool start(std::string& error);
  /// Waits for the thread, if there is one.
  void stop();
  /// To be called in the child of a fork, which does not have the thread: at once, and instead of `stop`.
  void leave();
  void abandon();

  /// Is told of the program's calls.
  Driving& driving() { return driving_; }
  /// The program is about to release the engine. What it did may be due before a thread that sleeps until a frame comes
  /// would wake up.
  void note_given_back() {
    if (rest_.load(std::memory_order_relaxed) == Rest::kAsleep) [[unlikely]]
      look_at_plan();
  }
  /// The program waits for something, so the thread looks at once. Any thread, with or without the lock.
  void wake();
  uint64_t turns() const { return turns_; }

 private:
  /// `start` waits for this.
  struct Opening {
    std::mutex mutex;
    std::condition_variable condition;
    bool done = false;
    std::string error;
  };

  /// How the thread rests, as the NIC was told.
  enum class Rest : uint8_t {
    kNone,
    kStandsBack,  // the program polls; the NIC rings when frames are left lying, and has not rung
    kAsleep,      // the NIC wakes the thread for each frame
  };
  /// Why it must not rest.
  enum class Call : uint8_t {
    kNone,
    kRung,   // by the NIC, and not handled yet
    kReady,  // frames were there when it was about to rest
  };

  void thread_main();
  void plan_sleeps();
  void step();
  Driving::Next drive(Call call);
  void take(const Driving::Next& next);
  void give_way();
  void nap(Duration duration);
  void stand_back(Duration longest);
  void sleep(Duration longest);
  void wait(Duration longest);
  void look_at_plan();

  EndpointImpl& endpoint_;
  Driving driving_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> wake_pending_{0};
  std::atomic<bool> waits_{false};       // in `wait`, or about to be
  std::atomic<Rest> rest_{Rest::kNone};  // becomes kAsleep under the engine's lock
  Instant planned_;                      // when it wakes up, if asleep, without a frame; under the engine's lock
  WakeUp wake_up_;
  // Used by the thread only.
  uint64_t turns_ = 0;
  Call call_ = Call::kNone;
  ProgramLoad program_load_;

  std::thread thread_;
  Opening opening_;
};

}  // namespace uroce
