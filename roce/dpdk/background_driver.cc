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

// A program that polls drives every microsecond or so. When it has not driven for this long, it is doing something
// else.
constexpr Duration kDrivenRecently = microseconds(100);
constexpr Duration kLookAgain = microseconds(300);
// After the last frame the thread polls for this long, and then sleeps, longer each time.
constexpr Duration kAwake = microseconds(150);
constexpr Duration kSleepMin = microseconds(50);
constexpr Duration kSleepMax = milliseconds(1);
constexpr Duration kSleepNoQps = milliseconds(5);
constexpr Duration kSleepArmed = milliseconds(100);  // where the device wakes; then capture and port are looked after
constexpr Duration kInlineLook = milliseconds(100);  // after capture and port, where the program drives alone
constexpr int kTurnsPerLock = 16;

// A program that waits for a byte of its memory to change makes no calls, and the frames for which it waits lie there
// until this thread comes. Such a program is recognised by this thread finding frames more often than the program's own
// calls do.
constexpr int kLeftLying = 2;      // left_lying_ from which on the program counts as not polling
constexpr int kLeftLyingMost = 8;  // bounds what the program has to find to count as polling again
constexpr Duration kDrivenJustNow = microseconds(5);
constexpr Duration kUnpolled =
    milliseconds(5);  // since frames were last found lying; later the program may be doing nothing at all
// When the program keeps every CPU busy, a thread that yields waits for the end of the program's time slice, but one
// that sleeps for a moment is scheduled at once.
constexpr Duration kCatnap = microseconds(15);
constexpr Duration kYieldWasLong = microseconds(50);
constexpr Duration kCrowded = milliseconds(100);
constexpr uint64_t kSliceNs = 100'000;
// For a program that waits without sleeping, the naps stay short for a while.
constexpr Duration kBusyWindow = milliseconds(10);
constexpr Duration kBusyPatience = milliseconds(100);

/// Blocks the program's signals in this thread, except those that an instruction raises: memory of the program may be
/// gone when this thread accesses it (fault_handler.h), and a fault that is blocked ends the process. net_tap uses a
/// real-time signal for every packet, and takes it in any thread: so signals that got a handler while the port was
/// opened are not blocked either.
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
  struct {  // the kernel's sched_attr, which libc has under that name only in later releases
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

/// When a turn is needed even if no frame arrives. To be called under an EngineLock.
Instant next_turn_due(EndpointImpl& endpoint) { return endpoint.next_timeout(); }

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
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);  // fails when it is readable already
}

void WakeUp::wait(int device_fd, Duration longest) const {
  pollfd entries[] = {{device_fd, POLLIN, 0}, {fd_, POLLIN, 0}};
  const timespec timeout{longest.ns / 1'000'000'000, longest.ns % 1'000'000'000};
  if (ppoll(entries, 2, &timeout, nullptr) <= 0 || (entries[1].revents & POLLIN) == 0) return;
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof count);
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
  kick();
  if (thread_.joinable()) thread_.join();
}

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
  if (good && endpoint_.device().wake_fd() >= 0) wake_up_.open();  // else it looks now and then
  mask.open_new_handlers();
  {
    const std::lock_guard guard(opening_.mutex);
    opening_.done = true;
    if (!good) opening_.error = error.empty() ? "not started" : std::move(error);
  }
  opening_.condition.notify_one();
  if (good) run();
}

bool BackgroundDriver::program_polls(Instant now) const {
  return left_lying_.load(std::memory_order_relaxed) < kLeftLying || now - last_found_ > kUnpolled;
}

bool BackgroundDriver::somebody_drives(Instant now) const {
  return now - Instant{last_driven_ns_.load(std::memory_order_relaxed)} <
         (program_polls(now) ? kDrivenRecently : kDrivenJustNow);
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

/// Called under the engine's lock, as is its counterpart `note_program_work`.
void BackgroundDriver::note_work(Instant now) {
  last_found_ = now;
  left_lying_.store(std::min(left_lying_.load(std::memory_order_relaxed) + 2, kLeftLyingMost),
                    std::memory_order_relaxed);
}

/// Gives the CPU to the peer or the program itself, which may be waiting for it.
void BackgroundDriver::give_way() {
  const Instant before = endpoint_.now();
  if (before < crowded_until_ && program_load_.busy(before)) {
    sleep(kCatnap);
    return;
  }
  sched_yield();
  const Instant after = endpoint_.now();
  if (after - before > kYieldWasLong) crowded_until_ = after + kCrowded;
}

void BackgroundDriver::run() {
  last_work_ = endpoint_.now();
  nap_ = kSleepMin;
  while (!stopping_) step();
}

void BackgroundDriver::step() try {
  const Instant now = endpoint_.now();
  endpoint_.look_after(now);
  if (progress_ == Progress::kInline) {
    sleep(kInlineLook);
    return;
  }
  if (progress_ == Progress::kAuto && somebody_drives(now)) {
    if (sleep(program_polls(now) ? kLookAgain : kCatnap)) last_work_ = endpoint_.now();
    return;
  }
  const Burst burst = drive();
  if (!burst.program_came_back) rest(burst);
} catch (const std::bad_alloc&) {
  sleep(kSleepMax);  // it will be tried again; of what was left out in a turn, `turn` speaks
}

BackgroundDriver::Burst BackgroundDriver::drive() {
  Burst burst;
  EngineLock engine(endpoint_);
  // The program may have come back while this thread waited for the engine.
  burst.program_came_back = progress_ == Progress::kAuto && somebody_drives(endpoint_.now());
  if (burst.program_came_back) return burst;
  for (int i = 0; i < kTurnsPerLock; i++) {
    const uint32_t done = endpoint_.turn(burst.at = endpoint_.now());
    turns_++;
    burst.work += done;
    if (done == 0) break;
  }
  if (burst.work != 0) note_work(burst.at);
  burst.next_timeout = next_turn_due(endpoint_);
  burst.waiting = endpoint_.device().tx_pending() || engine->wants_transmit();
  burst.has_qps = engine->qps().size() != 0;
  return burst;
}

/// Waits between two bursts, for as long as nothing is expected to happen.
void BackgroundDriver::rest(const Burst& burst) {
  const Instant now = burst.at;
  if (burst.work != 0) {
    last_work_ = now;
    nap_ = kSleepMin;
  }
  if (progress_ == Progress::kThread) {
    if (burst.work == 0) sched_yield();  // the program's own threads may share this CPU
    return;
  }
  if (now - last_work_ < kAwake) {
    give_way();
    return;
  }
  if (wake_up_.is_open() && !burst.waiting) {
    if (sleep_until_woken()) last_work_ = endpoint_.now();
    return;
  }
  const bool awaited = now - last_work_ < kBusyPatience && program_load_.busy(now);
  const Duration longest = burst.waiting || awaited ? kSleepMin : burst.has_qps ? kSleepMax : kSleepNoQps;
  const Duration until_timeout = std::max(burst.next_timeout - now, microseconds(10));
  if (sleep(std::min({nap_, longest, until_timeout}))) last_work_ = endpoint_.now();
  nap_ = std::min(nap_ * 2, longest);
}

/// Returns true when there is something to do.
bool BackgroundDriver::sleep_until_woken() {
  Duration longest = kSleepArmed;
  {
    EngineLock engine(endpoint_);
    const Instant now = endpoint_.now();
    if (somebody_drives(now) || engine->wants_transmit() || endpoint_.device().tx_pending() ||
        !endpoint_.device().arm())
      return true;
    longest = std::clamp(next_turn_due(endpoint_) - now, microseconds(10), kSleepArmed);
    armed_.store(true, std::memory_order_relaxed);
  }
  if (kicked_.exchange(0) == 0) wake_up_.wait(endpoint_.device().wake_fd(), longest);
  armed_.store(false, std::memory_order_relaxed);
  return kicked_.exchange(0) != 0;
}

/// Returns true when it was woken by `kick`.
bool BackgroundDriver::sleep(Duration duration) {
  if (kicked_.exchange(0) != 0) return true;
  const timespec timeout{duration.ns / 1'000'000'000, duration.ns % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&kicked_), FUTEX_WAIT_PRIVATE, 0, &timeout, nullptr, 0);
  return kicked_.exchange(0) != 0;
}

void BackgroundDriver::rouse() {
  if (armed_.exchange(false, std::memory_order_relaxed)) wake_up_.wake();
}

void BackgroundDriver::kick() {
  last_driven_ns_.store(0, std::memory_order_relaxed);  // a program that waits does not drive any more
  if (kicked_.exchange(1) == 0) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&kicked_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    if (wake_up_.is_open()) wake_up_.wake();
  }
}

}  // namespace uroce
