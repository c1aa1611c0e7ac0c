#include "wire/crc32.h"

#include <atomic>

#include "wire/crc32_kernels.h"

namespace uroce {
namespace {

CrcKernel best_kernel() {
  for (const CrcKernel kernel : {CrcKernel::kVpclmul, CrcKernel::kPclmul}) {
    if (crc32_kernel_supported(kernel)) return kernel;
  }
  return CrcKernel::kTable;
}

// Until the first call, these point at functions that choose. Several threads may choose at once: they agree.
uint32_t choose_update(uint32_t state, const void* data, size_t bytes);
uint32_t choose_copy(uint32_t state, void* dst, const void* src, size_t bytes);
std::atomic<decltype(CrcFunctions::update)> g_update{choose_update};
std::atomic<decltype(CrcFunctions::copy)> g_copy{choose_copy};

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

}  // namespace

uint32_t crc32_update(uint32_t state, const void* data, size_t bytes) {
  return g_update.load(std::memory_order_relaxed)(state, data, bytes);
}

uint32_t crc32_copy(uint32_t state, void* dst, const void* src, size_t bytes) {
  return g_copy.load(std::memory_order_relaxed)(state, dst, src, bytes);
}

bool crc32_kernel_supported(CrcKernel kernel) { return kernel == CrcKernel::kTable; }

CrcFunctions crc32_functions(CrcKernel) { return {crc::table_update, crc::table_copy}; }

CrcKernel crc32_kernel_in_use() { return best_kernel(); }

const char* crc32_kernel_name(CrcKernel kernel) {
  switch (kernel) {
    case CrcKernel::kTable:
      return "table";
    case CrcKernel::kPclmul:
      return "pclmul";
    case CrcKernel::kVpclmul:
      return "vpclmul";
  }
  return "?";
}

}  // namespace uroce
