// What a message of 8 bytes costs between two programs of a segment, apart from the way from core to core: two engines
// in one process, driven as a program in ibv_poll_cq drives its own.
//
//   hop_bench [HOPS]
//
// Prints nanoseconds per hop (half a round trip). "one thread": both ends on one core, whose caches have everything:
// what is left is the work. "two threads": each on a core of its own, as two programs are.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "segment_program.h"

namespace uroce::bench {
namespace {

[[gnu::noinline]] double one_thread(Program& a, Program& b, uint32_t hops) {
  const auto begin = std::chrono::steady_clock::now();
  hops_on_one_thread(a, b, hops);
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return time.count() / hops;
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/// Each end waits for its own send to complete before it polls for the answer, as in perftest.
void ping_pong(Program& program, bool first, uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; i++) {
    if (first) {
      program.post_send();
      while (program.sends() == 0) program.turn();
    }
    while (program.receives() == 0) program.turn();
    program.receive_one();
    if (first) continue;
    program.post_send();
    while (program.sends() == 0) program.turn();
  }
}

double two_threads(Program& a, Program& b, uint32_t hops) {
  std::atomic<int> at_work{2};
  double ns = 0;
  const auto take_part = [&](Program& program, bool first) {
    pin(first ? 0 : 1);
    const auto begin = std::chrono::steady_clock::now();
    ping_pong(program, first, hops / 2);
    if (first) ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    for (at_work--; at_work != 0;) program.turn();  // the other's last message needs an acknowledgement
  };
  std::thread other(take_part, std::ref(b), false);
  take_part(a, true);
  other.join();
  return ns / hops;
}

int run(uint32_t hops) {
  char directory[] = "/tmp/uroce-hop-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  {
    Program a(directory, 1);
    Program b(directory, 2);
    a.connect(b);
    b.connect(a);
    for (uint32_t i = 0; i < kDepth / 2; i++) {
      a.receive_one();
      b.receive_one();
    }
    settle(a, b);
    bench_clock = {true, now()};
    one_thread(a, b, hops / 10);
    double best = 1e9;
    for (int round = 0; round < 20; round++) best = std::min(best, one_thread(a, b, hops));
    std::printf("one thread   %.0f ns per hop\n", best);
    const Instant stepped = now();
    bench_clock.steps = false;
    while (now() < stepped) {  // time does not go back
    }
    settle(a, b);
    best = 1e9;
    for (int round = 0; round < 20; round++) best = std::min(best, two_threads(a, b, hops));
    std::printf("two threads  %.0f ns per hop\n", best);
  }
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  return uroce::bench::run(static_cast<uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 0) : 20'000));
}
