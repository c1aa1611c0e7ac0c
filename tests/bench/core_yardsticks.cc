// What two processes on two cores can do at best with shared memory: what the segment is measured against.
//
//   core_yardsticks CORE CORE
//
// Prints three lines: how long a line takes from core to core, one way; what a ring carries through which one copies in
// and the other out, 4 KiB at a time; and how long the kernel takes to wake the other (an eventfd, there and back,
// halved). Of the first two the best of several short runs, of the last the median.
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kRuns = 8;
constexpr uint32_t kTrips = 20'000;
constexpr uint32_t kWakes = 2000;
constexpr uint32_t kSlots = 256;
constexpr uint32_t kSlotBytes = 4096;
constexpr uint64_t kCopies = 51'200;
constexpr size_t kProgramBytes = 64 * 1024;  // copied from and to, as by ib_write_bw

struct Shared {
  alignas(64) std::atomic<uint64_t> ping;
  alignas(64) std::atomic<uint64_t> pong;
  alignas(64) std::atomic<uint64_t> produced;
  alignas(64) std::atomic<uint64_t> consumed;
  alignas(4096) uint8_t slots[kSlots][kSlotBytes];
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

/// Each of the two processes does one half of every measurement.
class Pair {
 public:
  Pair(int first, int second) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    shared_ = new (memory) Shared();
    bells_[0] = eventfd(0, 0);
    bells_[1] = eventfd(0, 0);
    child_ = fork();
    if (child_ < 0 || bells_[0] < 0 || bells_[1] < 0) fail("fork or eventfd");
    pin(child_ == 0 ? second : first);
  }

  int run() {
    if (child_ == 0) {
      for (uint32_t i = 0; i < kRuns; i++) answer_trips(i);
      for (uint32_t i = 0; i < kRuns; i++) copy_out(i);
      for (uint32_t i = 0; i < kWakes; i++) {
        wait_for(bells_[0]);
        ring(bells_[1]);
      }
      _exit(0);
    }
    double trip = 1e12, copy = 1e12;
    for (uint32_t i = 0; i < kRuns; i++) trip = std::min(trip, make_trips(i));
    for (uint32_t i = 0; i < kRuns; i++) copy = std::min(copy, copy_in(i));
    std::vector<double> wakes;
    for (uint32_t i = 0; i < kWakes; i++) {
      usleep(50);  // the other process is sound asleep
      const auto begin = Clock::now();
      ring(bells_[0]);
      wait_for(bells_[1]);
      wakes.push_back(ns_since(begin) / 2);
    }
    std::nth_element(wakes.begin(), wakes.begin() + kWakes / 2, wakes.end());
    std::printf("one way, ns: %.1f\ncopy ring, Gbit/s: %.1f\nwake, us: %.2f\n", trip, kSlotBytes * 8 / copy,
                wakes[kWakes / 2] / 1000);
    int status = 0;
    return waitpid(child_, &status, 0) == child_ && status == 0 ? 0 : 1;
  }

 private:
  static void ring(int bell) {
    const uint64_t one = 1;
    if (write(bell, &one, sizeof one) != sizeof one) fail("write");
  }
  static void wait_for(int bell) {
    uint64_t count;
    pollfd entry{bell, POLLIN, 0};
    if (poll(&entry, 1, 10'000) != 1 || read(bell, &count, sizeof count) != sizeof count) fail("poll");
  }
  static void wait_until(const std::atomic<uint64_t>& word, uint64_t value) {
    while (word.load(std::memory_order_acquire) < value) __builtin_ia32_pause();
  }

  /// Nanoseconds of one way, half a round trip.
  double make_trips(uint32_t run) {
    const uint64_t first = uint64_t{run} * kTrips;
    const auto begin = Clock::now();
    for (uint64_t i = first + 1; i <= first + kTrips; i++) {
      shared_->ping.store(i, std::memory_order_release);
      wait_until(shared_->pong, i);
    }
    return ns_since(begin) / kTrips / 2;
  }
  void answer_trips(uint32_t run) {
    const uint64_t first = uint64_t{run} * kTrips;
    for (uint64_t i = first + 1; i <= first + kTrips; i++) {
      wait_until(shared_->ping, i);
      shared_->pong.store(i, std::memory_order_release);
    }
  }

  uint8_t* program_bytes(uint64_t i) { return &program_[i * kSlotBytes % kProgramBytes]; }
  /// Nanoseconds for a slot.
  double copy_in(uint32_t run) {
    const uint64_t first = run * kCopies;
    const auto begin = Clock::now();
    uint64_t room = first + kSlots;  // rarely read: each read may fetch a cache line
    for (uint64_t i = first; i < first + kCopies; i++) {
      while (i >= room) room = shared_->consumed.load(std::memory_order_acquire) + kSlots;
      std::memcpy(shared_->slots[i % kSlots], program_bytes(i), kSlotBytes);
      shared_->produced.store(i + 1, std::memory_order_release);
    }
    wait_until(shared_->consumed, first + kCopies);
    return ns_since(begin) / static_cast<double>(kCopies);
  }
  void copy_out(uint32_t run) {
    const uint64_t first = run * kCopies;
    for (uint64_t i = first; i < first + kCopies; i++) {
      wait_until(shared_->produced, i + 1);
      std::memcpy(program_bytes(i), shared_->slots[i % kSlots], kSlotBytes);
      if ((i + 1) % 32 == 0) shared_->consumed.store(i + 1, std::memory_order_release);
    }
  }

  static_assert(kCopies % 32 == 0);
  Shared* shared_ = nullptr;
  int bells_[2] = {-1, -1};
  pid_t child_ = -1;
  std::vector<uint8_t> program_ = std::vector<uint8_t>(kProgramBytes, 1);
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::atoi(argv[1]) == std::atoi(argv[2]))
    return std::fprintf(stderr, "core_yardsticks CORE CORE    (two different ones)\n"), 2;
  return Pair(std::atoi(argv[1]), std::atoi(argv[2])).run();
}
