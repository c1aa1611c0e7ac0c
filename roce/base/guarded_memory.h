// Memory that the program registered, and that may go away while we use it.
//
// A program can unmap or protect memory that is still registered, or truncate the file behind it, and a peer may access
// it afterwards. So every function that reads or writes such memory is a *guarded* function: its code lies in a section
// of its own. When one of its instructions faults, the process's handler for SIGSEGV and SIGBUS (host/fault_handler.h)
// hands the fault to `recover_from_fault`, and the guarded function ends by throwing MemoryFault. The way back to the
// caller is in the unwind tables that the compiler writes anyway, so a call that does not fault saves, sets and checks
// nothing. What was copied before a fault stays (doc/adr/0017-memory-that-goes-away.md).
//
// In a process without that handler a fault is an ordinary crash.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>

// Only the function's own code is guarded: everything that it uses must be inlined. That excludes std::memcpy, which
// may become a call. `noipa` keeps the compiler from looking into the function and concluding that it never throws.
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

/// Loads and stores through these work at any alignment and on any type, and compilers never turn them into calls.
struct __attribute__((packed, may_alias)) Unaligned64 {
  uint64_t value;
};
struct __attribute__((packed, may_alias)) Unaligned32 {
  uint32_t value;
};

/// Copies; the ranges do not overlap.
UROCE_GUARDED void guarded_copy(void* dst, const void* src, size_t bytes);
/// `guarded_copy` uses one of these for more than 32 bytes: the first on processors with AVX2 (256-bit registers), else
/// the second (the string instruction).
UROCE_GUARDED void guarded_copy_avx2(void* dst, const void* src, size_t bytes);
UROCE_GUARDED void guarded_copy_string(void* dst, const void* src, size_t bytes);
/// Stores eight bytes at once, after everything that was stored before.
UROCE_GUARDED void guarded_store(uint64_t* word, uint64_t value);
/// Atomic towards all other accesses in the machine. Both return the value that was there before.
UROCE_GUARDED uint64_t guarded_fetch_add(uint64_t* word, uint64_t add);
UROCE_GUARDED uint64_t guarded_compare_swap(uint64_t* word, uint64_t compare, uint64_t swap);

/// `guarded_copy` without an exception. False when the memory is not there.
[[nodiscard]] inline bool try_copy(void* dst, const void* src, size_t bytes) {
  try {
    guarded_copy(dst, src, bytes);
    return true;
  } catch (const MemoryFault&) {
    return false;
  }
}

/// For the handler of SIGSEGV and SIGBUS; `context` is the ucontext_t that the handler got. True when a guarded
/// function faulted in this thread: `context` was changed so that the thread throws MemoryFault as soon as the handler
/// returns.
bool recover_from_fault(const siginfo_t& info, void* context);

}  // namespace uroce
