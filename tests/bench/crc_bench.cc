// How fast the CRC kernels are, next to what a program would otherwise use.
//
//   crc_bench [--kernels]
//
// Every packet size runs over three working sets (source and destination together: in the L1 cache, in the L2 cache,
// and 16 MiB). A cell is GB/s of message bytes, the best of several short runs, in which the competitors take turns, so
// that a noisy machine is noisy for all of them. `fused` is copy and CRC in one pass; `copy+isal` is memcpy and then
// ISA-L's CRC over the copy, what one would write without it. --kernels shows all of ours instead of the one in use.
#include <isa-l/crc.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "packet/crc32.h"
#include "packet/icrc.h"

// ISA-L's function for CPUs without AVX-512. It is not in the header, so it may disappear.
extern "C" __attribute__((weak)) uint32_t crc32_gzip_refl_by8_02(uint32_t seed, const unsigned char* data,
                                                                 uint64_t bytes);

namespace {

using namespace uroce;

constexpr int kRuns = 15;
constexpr double kRunSeconds = 400e-6;

using Work = uint32_t (*)(uint8_t* dst, const uint8_t* src, size_t bytes);

struct Competitor {
  std::string name;
  Work work;
};

uint32_t by_memcpy(uint8_t* dst, const uint8_t* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
  return 0;
}

uint32_t by_zlib(uint8_t*, const uint8_t* src, size_t bytes) {
  return static_cast<uint32_t>(crc32(0, src, static_cast<uInt>(bytes)));
}

uint32_t by_isal(uint8_t*, const uint8_t* src, size_t bytes) { return crc32_gzip_refl(0, src, bytes); }

uint32_t by_memcpy_then_isal(uint8_t* dst, const uint8_t* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
  return crc32_gzip_refl(0, dst, bytes);
}

uint32_t by_memcpy_then_isal_avx(uint8_t* dst, const uint8_t* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
  return crc32_gzip_refl_by8_02(0, dst, bytes);
}

uint32_t by_update(uint8_t*, const uint8_t* src, size_t bytes) {
  return crc32_final(crc32_update(kCrcInit, src, bytes));
}

uint32_t by_fused(uint8_t* dst, const uint8_t* src, size_t bytes) {
  return crc32_final(crc32_copy(kCrcInit, dst, src, bytes));
}

template <CrcKernel kKernel>
uint32_t by_kernel_update(uint8_t*, const uint8_t* src, size_t bytes) {
  static const auto update = crc32_functions(kKernel).update;
  return crc32_final(update(kCrcInit, src, bytes));
}

template <CrcKernel kKernel>
uint32_t by_kernel_copy(uint8_t* dst, const uint8_t* src, size_t bytes) {
  static const auto copy = crc32_functions(kKernel).copy;
  return crc32_final(copy(kCrcInit, dst, src, bytes));
}

template <CrcKernel kKernel>
void add_kernel(std::vector<Competitor>& list) {
  if (!crc32_kernel_supported(kKernel)) return;
  const std::string name = crc32_kernel_name(kKernel);
  list.push_back({name, by_kernel_update<kKernel>});
  list.push_back({name + "+c", by_kernel_copy<kKernel>});
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The fastest of several runs of each of `runs`, in seconds per round; they take turns.
std::vector<double> race(const std::vector<std::function<void(size_t rounds)>>& runs) {
  std::vector<size_t> rounds(runs.size(), 1);
  for (size_t i = 0; i < runs.size(); i++) {
    for (;;) {
      const double start = seconds_now();
      runs[i](rounds[i]);
      if (seconds_now() - start > kRunSeconds) break;
      rounds[i] *= 2;
    }
  }
  std::vector<double> best(runs.size(), 1e9);
  for (int repeat = 0; repeat < kRuns; repeat++) {
    for (size_t i = 0; i < runs.size(); i++) {
      const double start = seconds_now();
      runs[i](rounds[i]);
      best[i] = std::min(best[i], (seconds_now() - start) / static_cast<double>(rounds[i]));
    }
  }
  return best;
}

volatile uint32_t g_sink;

/// Some peers leave the upper halves of vector registers dirty, which slows down the code that runs next.
void clean_registers() {
  if (__builtin_cpu_supports("avx") != 0) __asm__ volatile("vzeroupper" ::: "memory");
}

class WorkingSet {
 public:
  /// `bytes`: size of the source and of the destination.
  WorkingSet(const char* name, size_t bytes) : name_(name), source_(bytes + 64), destination_(bytes + 64) {
    SeededRandom random(1);
    for (uint8_t& b : source_) b = static_cast<uint8_t>(random.next_u32());
    bytes_ = bytes;
  }

  void print(const std::vector<Competitor>& list, size_t size) const {
    std::vector<std::function<void(size_t)>> runs;
    runs.reserve(list.size());
    for (const Competitor& c : list) {
      runs.emplace_back([this, size, work = c.work](size_t rounds) { pass(work, size, rounds); });
    }
    const std::vector<double> seconds = race(runs);
    std::printf("%-4s %5zu", name_, size);
    std::vector<double> speed;
    for (const double s : seconds) {
      const size_t whole = bytes_ - bytes_ % size;
      speed.push_back(static_cast<double>(whole) / s / 1e9);
      std::printf(" %11.1f", speed.back());
    }
    print_ratios(list, speed);
  }

 private:
  /// Goes `rounds` times over the whole set, in packets of `size` bytes.
  void pass(Work work, size_t size, size_t rounds) const {
    clean_registers();
    uint32_t sum = 0;
    uint8_t* destination = aligned(const_cast<uint8_t*>(destination_.data()));
    const uint8_t* source = aligned(const_cast<uint8_t*>(source_.data()));
    for (size_t r = 0; r < rounds; r++) {
      for (size_t at = 0; at + size <= bytes_; at += size) sum ^= work(destination + at, source + at, size);
    }
    g_sink = sum;
  }

  static uint8_t* aligned(uint8_t* p) { return p + (64 - reinterpret_cast<uintptr_t>(p) % 64) % 64; }

  static void print_ratios(const std::vector<Competitor>& list, const std::vector<double>& speed) {
    const auto of = [&](std::string_view name) {
      const auto at = std::find_if(list.begin(), list.end(), [&](const Competitor& c) { return c.name == name; });
      return at == list.end() ? 0.0 : speed[static_cast<size_t>(at - list.begin())];
    };
    if (of("fused") > 0) {
      std::printf(" | %8.1f %8.2f %8.2f %8.2f", of("ours") / of("zlib"), of("ours") / of("isal"),
                  of("fused") / of("copy+isal"), of("fused") / of("memcpy"));
    }
    if (of("copy+isalA") > 0) std::printf(" | %8.2f", of("vpclmul+c") / of("copy+isalA"));
    std::printf("\n");
  }

  const char* name_;
  size_t bytes_ = 0;
  std::vector<uint8_t> source_;
  std::vector<uint8_t> destination_;
};

void print_table(const std::vector<WorkingSet>& sets, const std::vector<Competitor>& list, const char* ratios) {
  std::printf("%-10s", "set   size");
  for (const Competitor& c : list) std::printf(" %11s", c.name.c_str());
  std::printf("%s\n", ratios);
  for (const WorkingSet& set : sets) {
    for (const size_t size : {64, 256, 512, 1024, 2048, 4096}) set.print(list, size);
  }
}

void print_header_latency() {
  alignas(64) uint8_t header[128] = {0x45};
  const auto chain = [&header](bool ipv6) {
    return [&header, ipv6](size_t rounds) {
      uint32_t state = 0;
      for (size_t i = 0; i < rounds; i++) {
        header[30] = static_cast<uint8_t>(state);  // the next header depends on this one
        state = icrc_begin(header, ipv6);
      }
      g_sink = state;
    };
  };
  const auto update = [&header](size_t bytes) {
    return [&header, bytes](size_t rounds) {
      uint32_t state = kCrcInit;
      for (size_t i = 0; i < rounds; i++) state = crc32_update(state, header, bytes);
      g_sink = state;
    };
  };
  const std::vector<double> s =
      race({chain(false), chain(true), update(4), update(8), update(16), update(48), update(68), update(128)});
  std::printf("latency, ns: iCRC of the headers, masked: IPv4 %.1f, IPv6 %.1f;", s[0] * 1e9, s[1] * 1e9);
  std::printf(" CRC of 4 B %.1f, 8 B %.1f, 16 B %.1f, 48 B %.1f, 68 B %.1f, 128 B %.1f\n", s[2] * 1e9, s[3] * 1e9,
              s[4] * 1e9, s[5] * 1e9, s[6] * 1e9, s[7] * 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  const bool kernels = argc > 1 && std::string_view(argv[1]) == "--kernels";
  if (argc > 1 && !kernels) {
    std::fprintf(stderr, "usage: crc_bench [--kernels]\n");
    return 2;
  }
  const std::vector<WorkingSet> sets = {{"L1", 16384}, {"L2", 262144}, {"mem", 8u << 20}};
  std::printf("CRC kernel in use: %s. GB/s:\n", crc32_kernel_name(crc32_kernel_in_use()));
  std::vector<Competitor> list = {{"memcpy", by_memcpy}, {"isal", by_isal}, {"copy+isal", by_memcpy_then_isal}};
  if (kernels) {
    add_kernel<CrcKernel::kTable>(list);
    add_kernel<CrcKernel::kPclmul>(list);
    add_kernel<CrcKernel::kVpclmul>(list);
    add_kernel<CrcKernel::kVpclmul512>(list);
    print_table(sets, list, "");
  } else {
    list.insert(list.end(), {{"zlib", by_zlib}, {"ours", by_update}, {"fused", by_fused}});
    print_table(sets, list, " | our/zlib our/isal fus/c+i fus/memcpy");
    if (crc32_gzip_refl_by8_02 != nullptr && crc32_kernel_supported(CrcKernel::kVpclmul)) {
      std::printf("As on a CPU with VPCLMULQDQ and without AVX-512 (isalA: ISA-L's kernel for that):\n");
      list = {{"copy+isalA", by_memcpy_then_isal_avx}};
      add_kernel<CrcKernel::kVpclmul>(list);
      print_table(sets, list, " | fus/c+i");
    }
  }
  print_header_latency();
}
