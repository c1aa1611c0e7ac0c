#include "packet/crc32.h"

#include <atomic>

#include "packet/crc32_kernels.h"
#include "packet/icrc.h"

namespace uroce {
namespace {

CrcKernel best_kernel() {
  for (const CrcKernel kernel : {CrcKernel::kVpclmul512, CrcKernel::kVpclmul, CrcKernel::kPclmul}) {
    if (crc32_kernel_supported(kernel)) return kernel;
  }
  return CrcKernel::kTable;
}

// Until the first call, the pointers below point at functions that choose. Several threads may choose at once: they
// come to the same result.
uint32_t choose_update(uint32_t state, const void* data, size_t bytes);
uint32_t choose_copy(uint32_t state, void* dst, const void* src, size_t bytes);
uint32_t choose_icrc_header(const uint8_t* l3, bool ipv6);
std::atomic<decltype(CrcFunctions::update)> g_update{choose_update};
std::atomic<decltype(CrcFunctions::copy)> g_copy{choose_copy};
std::atomic<decltype(CrcFunctions::icrc_header)> g_icrc_header{choose_icrc_header};

uint32_t choose_update(uint32_t state, const void* data, size_t bytes) {
  const auto chosen = crc32_functions(best_kernel()).update;
  g_update.store(chosen, std::memory_order_relaxed);
  return chosen(state, data, bytes);
}

uint32_t choose_copy(uint32_t state, void* dst, const void* src, size_t bytes) {
  const auto chosen = crc32_functions(best_kernel()).copy;
  g_copy.store(chosen, std::memory_order_relaxed);
  return chosen(state, dst, src, bytes);
}

uint32_t choose_icrc_header(const uint8_t* l3, bool ipv6) {
  const auto chosen = crc32_functions(best_kernel()).icrc_header;
  g_icrc_header.store(chosen, std::memory_order_relaxed);
  return chosen(l3, ipv6);
}

}  // namespace

uint32_t crc32_update(uint32_t state, const void* data, size_t bytes) {
  return g_update.load(std::memory_order_relaxed)(state, data, bytes);
}

uint32_t crc32_copy(uint32_t state, void* dst, const void* src, size_t bytes) {
  return g_copy.load(std::memory_order_relaxed)(state, dst, src, bytes);
}

uint32_t icrc_begin(const uint8_t* l3, bool ipv6) { return g_icrc_header.load(std::memory_order_relaxed)(l3, ipv6); }

bool crc32_kernel_supported(CrcKernel kernel) {
  // __builtin_cpu_supports also checks that the operating system saves the wide registers.
  const bool pclmul = __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  const bool vpclmul = pclmul && __builtin_cpu_supports("vpclmulqdq") != 0 && __builtin_cpu_supports("avx2") != 0;
  switch (kernel) {
    case CrcKernel::kTable:
      return true;
    case CrcKernel::kPclmul:
      return pclmul;
    case CrcKernel::kVpclmul:
      return vpclmul;
    case CrcKernel::kVpclmul512:
      return vpclmul && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0;
  }
  return false;
}

CrcFunctions crc32_functions(CrcKernel kernel) {
  switch (kernel) {
    case CrcKernel::kTable:
      break;
    case CrcKernel::kPclmul:
      return {crc::pclmul_update, crc::pclmul_copy, crc::pclmul_header};
    case CrcKernel::kVpclmul:
      return {crc::vpclmul_update, crc::vpclmul_copy, crc::vpclmul_header};
    case CrcKernel::kVpclmul512:
      return {crc::vpclmul512_update, crc::vpclmul512_copy, crc::vpclmul512_header};
  }
  return {crc::table_update, crc::table_copy, crc::table_header};
}

CrcKernel crc32_kernel_in_use() { return best_kernel(); }

const char* crc32_kernel_name(CrcKernel kernel) {
  switch (kernel) {
    case CrcKernel::kTable:
      return "table";
    case CrcKernel::kPclmul:
      return "pclmul";
    case CrcKernel::kVpclmul:
      return "vpclmul";
    case CrcKernel::kVpclmul512:
      return "vpclmul512";
  }
  return "?";
}

}  // namespace uroce
