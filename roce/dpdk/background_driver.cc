#include "dpdk/background_driver.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/out_of_memory.h"
#include "dpdk/endpoint_impl.h"
#include "engine/queue_pairs.h"

namespace uroce {
namespace {

constexpr int kTurnsPerLock = 16;
constexpr uint64_t kSliceNs = 100'000;
constexpr Duration kBusyWindow = milliseconds(10);

/// Blocks the program's signals in this thread, except those that an instruction raises: memory of the program may be
/// gone when this thread accesses it (fault_handler.h), and a blocked fault ends the process. net_tap uses a real-time
/// signal for every packet and takes it in any thread, so signals that got a handler while the port was opened are not
/// blocked either.
class SignalMask {
 public:
  SignalMask() {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
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

/// Since Linux 6.12 a thread may ask for short time slices, and is scheduled sooner in return. Older kernels ignore
/// this.
void ask_for_short_slices() {
  struct {  // the kernel's sched_attr, which only later releases of libc have
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime_ns = kSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int64_t cpu_time_ns(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return ts.tv_sec * int64_t{1'000'000'000} + ts.tv_nsec;
}

}  // namespace

WakeUp::~WakeUp() {
  if (fd_ >= 0) close(fd_);
}

bool WakeUp::open() {
  fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return fd_ >= 0;
}

void WakeUp::wake() const {
  const uint64_t one = 1;
  syscall(SYS_write, fd_, &one, sizeof one);  // no cancellation point; fails when it is readable already
}

bool WakeUp::wait(int nic_fd, Duration longest) const {
  pollfd entries[] = {{nic_fd, POLLIN, 0}, {fd_, POLLIN, 0}};
  const timespec timeout{longest.ns / 1'000'000'000, longest.ns % 1'000'000'000};
  if (ppoll(entries, 2, &timeout, nullptr) <= 0) return false;
  uint64_t count;
  if ((entries[1].revents & POLLIN) != 0) [[maybe_unused]]
    const ssize_t got = read(fd_, &count, sizeof count);
  return entries[0].revents != 0;
}

bool BackgroundDriver::start(std::string& error) {
  try {
    thread_ = std::thread([this] { thread_main(); });
  } catch (const std::system_error&) {
    error = std::string(kOutOfMemory) + ", or too many threads, for one more (ulimit -v, ulimit -u)";
    return false;
  }
  std::unique_lock lock(opening_.mutex);
  opening_.condition.wait(lock, [this] { return opening_.done; });
  if (opening_.error.empty()) return true;
  error = std::move(opening_.error);
  return false;
}

void BackgroundDriver::stop() {
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void BackgroundDriver::leave() { rest_.store(Rest::kNone, std::memory_order_relaxed); }

void BackgroundDriver::abandon() {
  if (thread_.joinable()) thread_.detach();
}

void BackgroundDriver::thread_main() {
  const SignalMask mask;
  pthread_setname_np(pthread_self(), "uroce");
  prctl(PR_SET_TIMERSLACK, 1000UL);
  ask_for_short_slices();
  std::string error;
  bool good = false;
  try {
    good = endpoint_.open_port(error);
  } catch (const std::bad_alloc&) {
    error = kOutOfMemory;
  }
  if (good) plan_sleeps();
  mask.open_new_handlers();
  {
    const std::lock_guard guard(opening_.mutex);
    opening_.done = true;
    if (!good) opening_.error = error.empty() ? "not started" : std::move(error);
  }
  opening_.condition.notify_one();
  if (!good) return;
  driving_.note_told(endpoint_.now());
  while (!stopping_) step();
}

bool ProgramLoad::busy(Instant now) {
  if (now - window_start_ >= kBusyWindow) {
    const int64_t used_ns = cpu_time_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    busy_ = used_ns - used_before_ns_ > (now - window_start_).ns / 3;
    used_before_ns_ = used_ns;
    window_start_ = now;
  }
  return busy_;
}

/// Without a descriptor the thread wakes up now and then.
void BackgroundDriver::plan_sleeps() {
  const WakeSource* const source = endpoint_.nic().wake_source();
  if (source == nullptr || !wake_up_.open()) return;
  driving_.set_wakes(source->sees_left_lying() ? Driving::Wakes::kLeftLying : Driving::Wakes::kAtOnce);
}

void BackgroundDriver::step() try {
  const Instant now = endpoint_.now();
  endpoint_.look_after(now);
  const Call call = std::exchange(call_, Call::kNone);
  const Driving::Next next = driving_.before(now, call != Call::kNone);
  take(next.what == Driving::Do::kDrive ? drive(call) : next);
} catch (const std::bad_alloc&) {
  nap(Driving::kSleepMax);  // tried again later; `turn` logs what a turn left out
}

void BackgroundDriver::take(const Driving::Next& next) {
  switch (next.what) {
    case Driving::Do::kDrive:
      return;
    case Driving::Do::kYield:
      return give_way();
    case Driving::Do::kNap:
      return nap(next.longest);
    case Driving::Do::kStandBack:
      return stand_back(next.longest);
    case Driving::Do::kSleep:
      return sleep(next.longest);
  }
}

/// Gives the CPU to the peer or the program itself, which may be waiting for it.
void BackgroundDriver::give_way() {
  const Instant before = endpoint_.now();
  sched_yield();
  driving_.note_yielded(before, endpoint_.now());
}

Driving::Next BackgroundDriver::drive(Call call) {
  Driving::Burst burst;
  {
    EngineLock engine(endpoint_);
    rest_.store(Rest::kNone, std::memory_order_relaxed);
    if (WakeSource* const source = endpoint_.nic().wake_source()) source->disarm();
    burst.at = endpoint_.now();
    // The program may have come back while this thread waited for the engine.
    if (call == Call::kNone && driving_.program_drives(burst.at)) return {};
    for (int i = 0; i < kTurnsPerLock; i++) {
      const uint32_t done = endpoint_.turn(burst.at = endpoint_.now());
      turns_++;
      burst.work += done;
      if (done == 0) break;
    }
    driving_.note_turns(burst.at, call == Call::kRung, burst.work != 0);
    burst.next_timeout = endpoint_.next_timeout();
    burst.waiting = endpoint_.nic().tx_pending() || engine->wants_transmit();
    burst.has_qps = engine->qps().size() != 0;
  }
  burst.program_busy = program_load_.busy(burst.at);
  return driving_.after(burst);
}

/// The program polls, so its engine is left alone: the NIC knows already when to ring, or is told once.
void BackgroundDriver::stand_back(Duration longest) {
  if (rest_.load(std::memory_order_relaxed) != Rest::kStandsBack) {
    EngineLock engine(endpoint_);
    rest_.store(Rest::kStandsBack, std::memory_order_relaxed);
    // Senders that have seen this thread awake may sleep by now.
    if (!endpoint_.nic().wake_source()->stand_back() && !driving_.program_drives(endpoint_.now())) {
      call_ = Call::kReady;
      return;
    }
  }
  wait(longest);
}

void BackgroundDriver::sleep(Duration longest) {
  {
    EngineLock engine(endpoint_);
    const Instant now = endpoint_.now();
    WakeSource& source = *endpoint_.nic().wake_source();
    rest_.store(Rest::kNone, std::memory_order_relaxed);
    if ((driving_.program_drives(now) && !driving_.polls_memory(now)) || engine->wants_transmit() ||
        endpoint_.nic().tx_pending())
      return;
    if (!source.arm()) {
      call_ = Call::kReady;
      return;
    }
    planned_ = std::min(endpoint_.next_timeout(), now + longest);
    longest = std::clamp(planned_ - now, Driving::kShortest, std::max(longest, Driving::kShortest));
    if (source.watching()) longest = std::min(longest, Driving::kWatch);
    rest_.store(Rest::kAsleep, std::memory_order_relaxed);
  }
  wait(longest);
  rest_.store(Rest::kNone, std::memory_order_relaxed);
}

/// A wake-up cannot fall between the look at `wake_pending_` and the sleep: a thread that wakes it sets `wake_pending_`
/// first and then checks whether this thread waits; this thread sets `waits_` first and then checks whether it was
/// woken.
void BackgroundDriver::wait(Duration longest) {
  waits_.store(true);
  if (wake_pending_.load() == 0 && wake_up_.wait(endpoint_.nic().wake_source()->fd(), longest)) call_ = Call::kRung;
  waits_.store(false);
  if (wake_pending_.exchange(0) != 0) driving_.note_told(endpoint_.now());
}

void BackgroundDriver::nap(Duration duration) {
  if (wake_pending_.load() == 0) {
    const timespec timeout{duration.ns / 1'000'000'000, duration.ns % 1'000'000'000};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&wake_pending_), FUTEX_WAIT_PRIVATE, 0, &timeout, nullptr, 0);
  }
  if (wake_pending_.exchange(0) != 0) driving_.note_told(endpoint_.now());
}

/// The program may poll from now on, or this may have been its only call. If nothing is due before the thread wakes up
/// anyway, the thread sleeps on; the next frame wakes it, and then it finds out who drives.
void BackgroundDriver::look_at_plan() {
  WakeSource& source = *endpoint_.nic().wake_source();
  source.look();
  if (endpoint_.next_timeout() >= planned_ && !endpoint_.nic().tx_pending() && !endpoint_.engine().wants_transmit() &&
      !source.watching())
    return;
  rest_.store(Rest::kNone, std::memory_order_relaxed);
  source.disarm();
  wake_up_.wake();
}

void BackgroundDriver::wake() {
  driving_.note_waits();
  if (wake_pending_.exchange(1) != 0) return;
  if (waits_.load()) {
    wake_up_.wake();
  } else {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&wake_pending_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

}  // namespace uroce
