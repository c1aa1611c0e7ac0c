// The background thread: it starts EAL, and drives the engine when the program does not.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "dpdk/endpoint_impl.h"
#include "dpdk/log.h"

namespace uroce {
namespace {

// A program that polls drives every microsecond or so. When it has not for this long it does something else.
constexpr Duration kDrivenRecently = microseconds(100);
constexpr Duration kLookAgain = microseconds(300);
// After the last frame: keep polling this long, then sleep, longer each time.
constexpr Duration kAwake = microseconds(150);
constexpr Duration kSleepMin = microseconds(50);
constexpr Duration kSleepMax = milliseconds(1);
constexpr Duration kSleepNoQps = milliseconds(5);
constexpr Duration kCaptureFlush = milliseconds(100);
constexpr int kTurnsPerLock = 16;

/// The program's signals are for the program's threads. net_tap alone wants a real-time signal for every packet, and
/// takes it from any thread: those that got a handler while the port was opened stay open.
class SignalMask {
 public:
  SignalMask() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    for (int s = SIGRTMIN; s <= SIGRTMAX; s++) had_handler_[s] = has_handler(s);
  }
  void open_new_handlers() const {
    sigset_t fresh;
    sigemptyset(&fresh);
    for (int s = SIGRTMIN; s <= SIGRTMAX; s++) {
      if (has_handler(s) && !had_handler_[s]) sigaddset(&fresh, s);
    }
    pthread_sigmask(SIG_UNBLOCK, &fresh, nullptr);
  }

 private:
  static bool has_handler(int signal) {
    struct sigaction action {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
  }
  bool had_handler_[_NSIG] = {};
};

}  // namespace

bool EndpointImpl::start_thread(std::string& error) {
  thread_ = std::thread([this] { thread_main(); });
  std::unique_lock lock(start_mutex_);
  start_condition_.wait(lock, [this] { return start_done_; });
  if (start_error_.empty()) return true;
  error = start_error_;
  return false;
}

void EndpointImpl::thread_main() {
  const SignalMask mask;
  pthread_setname_np(pthread_self(), "uroce");
  prctl(PR_SET_TIMERSLACK, 1000UL);
  std::string error;
  const bool good = open_port(error);
  mask.open_new_handlers();
  {
    const std::lock_guard guard(start_mutex_);
    start_done_ = true;
    if (!good) start_error_ = error.empty() ? "the port did not start" : error;
  }
  start_condition_.notify_one();
  if (good) drive_in_background();
}

bool EndpointImpl::somebody_drives(Instant now) const {
  return now - Instant{last_driven_ns_.load(std::memory_order_relaxed)} < kDrivenRecently;
}

void EndpointImpl::drive_in_background() {
  Instant last_work = clock_.now();
  Duration nap = kSleepMin;
  while (!stopping_) {
    Instant now = clock_.now();
    look_after_capture(now);
    if (config_.progress == Progress::kInline) {
      sleep(kCaptureFlush);
      continue;
    }
    if (config_.progress == Progress::kAuto && somebody_drives(now)) {
      if (sleep(kLookAgain)) last_work = clock_.now();
      continue;
    }
    uint32_t work = 0;
    Instant next;
    bool waiting;
    bool has_qps;
    {
      const EngineLock owner(*this);
      // The program may have come back while this thread waited for the engine.
      if (config_.progress == Progress::kAuto && somebody_drives(clock_.now())) continue;
      for (int i = 0; i < kTurnsPerLock; i++) {
        const uint32_t done = turn(now = clock_.now());
        background_turns_++;
        work += done;
        if (done == 0) break;
      }
      next = engine_->next_timeout();
      waiting = port_->tx_pending() || engine_->wants_transmit();
      has_qps = engine_->status().qps != 0;
    }
    if (work != 0) {
      last_work = now;
      nap = kSleepMin;
    }
    if (config_.progress == Progress::kThread) {
      if (work == 0) sched_yield();  // the program's own threads may share this CPU
      continue;
    }
    if (now - last_work < kAwake) {
      // The peer, or the program itself, may be waiting for this CPU.
      sched_yield();
      continue;
    }
    const Duration longest = waiting ? kSleepMin : has_qps ? kSleepMax : kSleepNoQps;
    if (sleep(std::min({nap, longest, std::max(next - now, microseconds(10))}))) last_work = clock_.now();
    nap = std::min(nap * 2, longest);
  }
}

void EndpointImpl::look_after_capture(Instant now) {
  if (!capture_ || now < next_capture_flush_) return;
  next_capture_flush_ = now + kCaptureFlush;
  {
    const EngineLock owner(*this);
    capture_->begin_flush();
  }
  capture_->finish_flush();
}

/// True when it was kicked awake.
bool EndpointImpl::sleep(Duration duration) {
  if (kicked_.exchange(0) != 0) return true;
  const timespec timeout{duration.ns / 1'000'000'000, duration.ns % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&kicked_), FUTEX_WAIT_PRIVATE, 0, &timeout, nullptr, 0);
  return kicked_.exchange(0) != 0;
}

void EndpointImpl::kick() {
  last_driven_ns_.store(0, std::memory_order_relaxed);  // whoever waits does not drive any more
  if (kicked_.exchange(1) == 0) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&kicked_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

}  // namespace uroce
