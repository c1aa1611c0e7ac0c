// What the processes of a run tell each other beside the segment: where they are, and how far.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace uroce::segment::test {

enum class Phase : uint32_t { kConnect, kCalm, kScribbled, kEnd };

struct Board {
  static constexpr uint32_t kVictims = 4;

  struct Victim {
    std::atomic<uint32_t> qpn[kVictims];  // of the queue pair for each of the others
    std::atomic<uint64_t> id;             // of the member; is written last
    std::atomic<bool> connected;
    std::atomic<uint64_t> verified;  // messages whose bytes were all checked
    std::atomic<uint64_t> cpu_us;    // used by its process
    std::atomic<uint64_t> nonsense;  // bad slots of the scribbler's that it skipped
    std::atomic<uint64_t> dropped;   // frames of the scribbler's that its engine dropped
  };
  std::atomic<Phase> phase;
  Victim victims[kVictims];

  /// For this process and those that it forks; never freed.
  static Board& make() {
    void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) Board();
  }
};

}  // namespace uroce::segment::test
