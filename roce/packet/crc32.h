// CRC-32 (IEEE 802.3, reflected), the polynomial of the iCRC, as fast as the CPU can.
//
// The state is the raw register: start with kCrcInit, pass it through any number of updates, end with `crc32_final`.
// The implementation is chosen once, at first use, by what the CPU has: VPCLMULQDQ (512 or 256 bits at a time),
// PCLMULQDQ, or tables. All of them give the same bits for every length and alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce {

inline constexpr uint32_t kCrcInit = 0xFFFFFFFFu;

uint32_t crc32_update(uint32_t state, const void* data, size_t bytes);

/// Copies `bytes` from `src` to `dst` (not overlapping) and returns the state over them, in one pass. Guarded: `src`
/// and `dst` may be memory of the program, and when it is not there the function throws MemoryFault
/// (base/guarded_memory.h).
uint32_t crc32_copy(uint32_t state, void* dst, const void* src, size_t bytes);

constexpr uint32_t crc32_final(uint32_t state) { return ~state; }

/// The implementations, for tests and benchmarks. `crc32_kernel_supported` says whether this CPU can run one.
enum class CrcKernel : uint8_t { kTable, kPclmul, kVpclmul, kVpclmul512 };
struct CrcFunctions {
  uint32_t (*update)(uint32_t state, const void* data, size_t bytes);
  uint32_t (*copy)(uint32_t state, void* dst, const void* src, size_t bytes);
  uint32_t (*icrc_header)(const uint8_t* l3, bool ipv6);  // icrc_begin (icrc.h)
};
bool crc32_kernel_supported(CrcKernel kernel);
CrcFunctions crc32_functions(CrcKernel kernel);
CrcKernel crc32_kernel_in_use();
const char* crc32_kernel_name(CrcKernel kernel);

}  // namespace uroce
