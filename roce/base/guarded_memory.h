// Memory that the program registered, and that may go away while we use it.
//
// A program can unmap or protect memory that is still registered, or cut the file behind it; a peer may touch it then.
// So whatever reads or writes such memory is a *guarded* function: its code lies in a section of its own. When an
// instruction of it faults, the process's handler for SIGSEGV and SIGBUS (host/fault_handler.h) hands the fault to
// `recover_from_fault`, and the guarded function ends by throwing MemoryFault. The way back to the caller is in the
// tables that the compiler writes for exceptions anyway: nothing is saved, set or checked while nothing fails, and what
// was copied before the fault stays (doc/adr/0017-memory-that-goes-away.md).
//
// Without a handler nothing changes: a fault is the ordinary crash.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>

// Only the function's own code is guarded: what it calls must be inlined, std::memcpy included, which may become a
// call. `noipa`: a compiler that looks into the function would conclude that it never throws.
#if defined(__has_attribute) && __has_attribute(noipa)
#define UROCE_GUARDED __attribute__((noinline, noipa, section("uroce_guarded")))
#else
#define UROCE_GUARDED __attribute__((noinline, section("uroce_guarded")))
#endif

namespace uroce {

/// What a guarded function throws when memory is not there.
struct MemoryFault {
  uint64_t address;
};

/// Loads and stores of any alignment and type, which compilers never turn into calls.
struct __attribute__((packed, may_alias)) Unaligned64 {
  uint64_t value;
};
struct __attribute__((packed, may_alias)) Unaligned32 {
  uint32_t value;
};

/// Copies; the ranges do not overlap.
UROCE_GUARDED void guarded_copy(void* dst, const void* src, size_t bytes);
/// What `guarded_copy` chooses from, for more than 32 bytes: with 256 bit registers, on processors with AVX2, or with
/// the string instruction.
UROCE_GUARDED void guarded_copy_avx2(void* dst, const void* src, size_t bytes);
UROCE_GUARDED void guarded_copy_string(void* dst, const void* src, size_t bytes);
/// Atomic towards everybody in the machine; both return the value before.
UROCE_GUARDED uint64_t guarded_fetch_add(uint64_t* word, uint64_t add);
UROCE_GUARDED uint64_t guarded_compare_swap(uint64_t* word, uint64_t compare, uint64_t swap);

/// `guarded_copy` without an exception. False: memory is not there.
[[nodiscard]] inline bool try_copy(void* dst, const void* src, size_t bytes) {
  try {
    guarded_copy(dst, src, bytes);
    return true;
  } catch (const MemoryFault&) {
    return false;
  }
}

/// For the handler of SIGSEGV and SIGBUS. True when a guarded function faulted in this thread: `context`, the
/// ucontext_t that the handler got, now makes it go on by throwing MemoryFault; the handler just returns.
bool recover_from_fault(const siginfo_t& info, void* context);

}  // namespace uroce
