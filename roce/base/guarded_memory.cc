#include "base/guarded_memory.h"

#include <immintrin.h>
#include <ucontext.h>

namespace uroce {

namespace {

#define UROCE_ALWAYS_INLINE static inline __attribute__((always_inline))
#define UROCE_AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

/// Up to 32 bytes: two loads that may overlap, then two stores.
UROCE_ALWAYS_INLINE void copy_up_to_32(uint8_t* dst, const uint8_t* src, size_t bytes) {
  if (bytes >= 16) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
    const __m128i last = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + bytes - 16));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), first);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + bytes - 16), last);
  } else if (bytes >= 8) {
    const uint64_t first = reinterpret_cast<const Unaligned64*>(src)->value;
    const uint64_t last = reinterpret_cast<const Unaligned64*>(src + bytes - 8)->value;
    reinterpret_cast<Unaligned64*>(dst)->value = first;
    reinterpret_cast<Unaligned64*>(dst + bytes - 8)->value = last;
  } else if (bytes >= 4) {
    const uint32_t first = reinterpret_cast<const Unaligned32*>(src)->value;
    const uint32_t last = reinterpret_cast<const Unaligned32*>(src + bytes - 4)->value;
    reinterpret_cast<Unaligned32*>(dst)->value = first;
    reinterpret_cast<Unaligned32*>(dst + bytes - 4)->value = last;
  } else if (bytes != 0) {
    const uint8_t first = src[0];
    const uint8_t middle = src[bytes / 2];
    const uint8_t last = src[bytes - 1];
    dst[0] = first;
    dst[bytes / 2] = middle;
    dst[bytes - 1] = last;
  }
}

UROCE_AVX2_INLINE __m256i load256(const uint8_t* src) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
}
UROCE_AVX2_INLINE void store256(uint8_t* dst, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), v); }

}  // namespace

void guarded_copy(void* dst, const void* src, size_t bytes) {
  if (bytes <= 32) return copy_up_to_32(static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
  return __builtin_cpu_supports("avx2") ? guarded_copy_avx2(dst, src, bytes) : guarded_copy_string(dst, src, bytes);
}

__attribute__((target("avx2"))) void guarded_copy_avx2(void* to, const void* from, size_t bytes) {
  auto* dst = static_cast<uint8_t*>(to);
  const auto* src = static_cast<const uint8_t*>(from);
  const __m256i first = load256(src);
  const __m256i last = load256(src + bytes - 32);
  uint8_t* const end = dst + bytes - 32;
  store256(dst, first);
  if (bytes > 64) {  // the stores between the first and the last register are aligned
    const size_t skip = 32 - (reinterpret_cast<uintptr_t>(dst) & 31);
    dst += skip;
    src += skip;
    for (; dst + 128 <= end; dst += 128, src += 128) {
      const __m256i a = load256(src);
      const __m256i b = load256(src + 32);
      const __m256i c = load256(src + 64);
      const __m256i d = load256(src + 96);
      store256(dst, a);
      store256(dst + 32, b);
      store256(dst + 64, c);
      store256(dst + 96, d);
    }
    for (; dst < end; dst += 32, src += 32) store256(dst, load256(src));
  }
  store256(end, last);
}

void guarded_copy_string(void* dst, const void* src, size_t bytes) {
  asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
}

void guarded_store(uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

uint64_t guarded_fetch_add(uint64_t* word, uint64_t add) { return __atomic_fetch_add(word, add, __ATOMIC_SEQ_CST); }

uint64_t guarded_compare_swap(uint64_t* word, uint64_t compare, uint64_t swap) {
  __atomic_compare_exchange_n(word, &compare, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;
}

}  // namespace uroce

extern "C" {

// The linker's names for the section's ends: each program or shared object has its own.
extern const char __start_uroce_guarded[] __attribute__((visibility("hidden")));
extern const char __stop_uroce_guarded[] __attribute__((visibility("hidden")));

void uroce_fault_landing();

/// Called by uroce_fault_landing only.
[[noreturn]] __attribute__((used, visibility("hidden"))) void uroce_throw_memory_fault(uint64_t address) {
  throw uroce::MemoryFault{address};
}

}  // extern "C"

// After a fault the thread goes on here, as if the instruction that faulted had called this function. rdi is the
// address that was accessed, rsi the address of the instruction, rdx the stack pointer at that moment. The unwind
// information says that the caller's stack pointer and instruction are the two words pushed here, and that this
// instruction did not finish (a signal frame).
asm(R"(
  .text
  .type uroce_fault_landing, @function
  .hidden uroce_fault_landing
uroce_fault_landing:
  .cfi_startproc
  .cfi_signal_frame
  push %rdx
  push %rsi
  .cfi_escape 0x0f, 3, 0x77, 8, 0x06   # the frame below: its stack pointer is the word at rsp + 8
  .cfi_escape 0x10, 16, 2, 0x77, 0     # its instruction pointer is saved at rsp
  call uroce_throw_memory_fault
  ud2
  .cfi_endproc
  .size uroce_fault_landing, . - uroce_fault_landing
)");

namespace uroce {

bool recover_from_fault(const siginfo_t& info, void* context) {
  if (info.si_code <= 0) return false;  // sent with kill() or the like: no fault
  greg_t(&registers)[NGREG] = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto instruction = static_cast<uint64_t>(registers[REG_RIP]);
  if (instruction < reinterpret_cast<uint64_t>(__start_uroce_guarded)) return false;
  if (instruction >= reinterpret_cast<uint64_t>(__stop_uroce_guarded)) return false;
  registers[REG_RDI] = static_cast<greg_t>(reinterpret_cast<uint64_t>(info.si_addr));
  registers[REG_RSI] = registers[REG_RIP];
  registers[REG_RDX] = registers[REG_RSP];
  // Leaves the red zone alone, which a function may use below its stack pointer, and aligns as for a call.
  constexpr greg_t kRedZone = 128;
  registers[REG_RSP] = (registers[REG_RSP] - kRedZone) & ~greg_t{15};
  registers[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uint64_t>(&uroce_fault_landing));
  return true;
}

}  // namespace uroce
