// What it costs that copies of the program's memory can recover from a fault: guarded_copy against memcpy.
//
//   guard_bench
//
// Each row is one size, over 16 KiB (payload that the iCRC check has just read) and over 2 MiB; the two take turns, and
// the best of many short runs counts.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/guarded_memory.h"

namespace {

using Copy = void (*)(void*, const void*, size_t);

void by_memcpy(void* dst, const void* src, size_t bytes) { std::memcpy(dst, src, bytes); }

double ns_per_copy(Copy copy, uint8_t* dst, const uint8_t* src, size_t bytes, size_t range) {
  const size_t step = std::max<size_t>(bytes, 64);
  const auto copies = static_cast<int>(std::max<size_t>(200'000 / (bytes + 50), 200));
  size_t at = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < copies; i++) {
    copy(dst + at, src + at + 42, bytes);  // a payload begins 42 bytes or more behind its frame
    at += step;
    if (at + step + 64 > range) at = 0;
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return time.count() / copies;
}

}  // namespace

int main() {
  std::vector<uint8_t> src(1 << 22);
  std::vector<uint8_t> dst(1 << 22);
  // Through pointers that the compiler cannot resolve.
  volatile const Copy plain = by_memcpy;
  volatile const Copy guarded = uroce::guarded_copy;
  std::printf("%8s %10s %10s %10s %8s\n", "bytes", "range", "memcpy ns", "guarded ns", "ratio");
  for (const size_t range : {size_t{16} << 10, size_t{2} << 20}) {
    for (const size_t bytes : {8, 64, 256, 1024, 2048, 4096}) {
      double best[2] = {1e9, 1e9};
      for (int round = 0; round < 300; round++) {
        best[0] = std::min(best[0], ns_per_copy(plain, dst.data(), src.data(), bytes, range));
        best[1] = std::min(best[1], ns_per_copy(guarded, dst.data(), src.data(), bytes, range));
      }
      std::printf("%8zu %10zu %10.2f %10.2f %8.3f\n", bytes, range, best[0], best[1], best[0] / best[1]);
    }
  }
  return 0;
}
