// The thread of an endpoint: it opens the port, and drives the engine when the program does not.
//
// In mode `kAuto` it stands back while the program's own calls drive, takes over when those calls do not find the
// frames that arrive, and sleeps when nothing happens: until the device wakes it, where there is one that can, else for
// short times.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "dpdk/endpoint.h"
#include "uroce/time.h"

namespace uroce {

class EndpointImpl;

/// Tells whether the program uses the CPU, for whatever purpose. The background thread asks, and does not count its own
/// time. Measured over windows that are long enough for the kernel's accounting.
class ProgramLoad {
 public:
  bool busy(Instant now);

 private:
  Instant window_start_{0};
  int64_t used_before_ns_ = 0;
  bool busy_ = false;
};

/// What ends a sleep in which the device is waited for, too.
class WakeUp {
 public:
  WakeUp() = default;
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  /// False when there is no descriptor for it.
  bool open();
  bool is_open() const { return fd_ >= 0; }
  /// Any thread.
  void wake() const;
  /// Sleeps until `device_fd` is readable, `wake` is called, or the time is over.
  void wait(int device_fd, Duration longest) const;

 private:
  int fd_ = -1;
};

class BackgroundDriver {
 public:
  BackgroundDriver(EndpointImpl& endpoint, Progress progress) : endpoint_(endpoint), progress_(progress) {}

  /// Returns when the thread has opened the port, or false, with one line in `error`, when it could not.
  bool start(std::string& error);
  /// Waits for the thread, if there is one.
  void stop();
  /// To be called in the child of a fork, which does not have the thread.
  void abandon();

  /// The program drives, so the thread stands back.
  void note_driven(Instant now) { last_driven_ns_.store(now.ns, std::memory_order_relaxed); }
  /// The program takes the engine. What it does there may have to be looked after, and the device wakes nobody any more
  /// once it was used: so a thread that sleeps until it is woken looks again.
  void note_taken() {
    if (armed_.load(std::memory_order_relaxed)) [[unlikely]]
      rouse();
  }
  /// A call of the program found something to do. To be called under the engine's lock, as is the thread's counterpart
  /// `note_work`.
  void note_program_work() {
    if (const int lay = left_lying_.load(std::memory_order_relaxed); lay != 0) [[unlikely]]
      left_lying_.store(lay - 1, std::memory_order_relaxed);
  }
  /// The program waits for something, so the thread looks at once.
  void kick();
  uint64_t turns() const { return turns_; }

 private:
  struct Burst {
    uint32_t work = 0;
    Instant at;            // when its last turn was
    Instant next_timeout;  // of engine and device
    bool waiting = false;  // there is something to send
    bool has_qps = false;
    bool program_came_back = false;  // before anything was done in this burst
  };

  /// What `start` waits for.
  struct Opening {
    std::mutex mutex;
    std::condition_variable condition;
    bool done = false;
    std::string error;
  };

  void thread_main();
  void run();
  void step();
  Burst drive();
  void rest(const Burst& burst);
  bool somebody_drives(Instant now) const;
  bool program_polls(Instant now) const;
  void note_work(Instant now);
  void give_way();
  bool sleep(Duration duration);
  bool sleep_until_woken();
  void rouse();

  EndpointImpl& endpoint_;
  const Progress progress_;
  std::atomic<int64_t> last_driven_ns_{0};  // by the program
  std::atomic<int> left_lying_{0};  // goes up when this thread finds frames, down when the program does; bounded
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> kicked_{0};
  std::atomic<bool> armed_{false};  // sleeps until the device wakes it
  WakeUp wake_up_;
  // Used by the thread only.
  uint64_t turns_ = 0;
  Instant last_found_{0};  // when it last found frames that the program had not
  Instant last_work_{0};
  Duration nap_{0};
  Instant crowded_until_{0};
  ProgramLoad program_load_;

  std::thread thread_;
  Opening opening_;
};

}  // namespace uroce
