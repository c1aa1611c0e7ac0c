// The verbs shim: a library that is preloaded into unmodified RDMA programs and gives them the device `uroce0`.
//
// What it is made of:
//   verbs.map          which symbols leave the library, under which version nodes
//   objects.h          what a program's ibv_context, ibv_pd, ibv_qp ... really are
//   runtime.h          the one endpoint behind all contexts: opened late, shared, kept until exit
//   refusal.h          EOPNOTSUPP and one log line, for any signature
//   observer.cc        from the engine's events to completion channels, async events and the log
//   device.cc context.cc query.cc identity.cc pd_mr.cc mw.cc cq.cc cq_ex.cc channel.cc qp.cc qp_modify.cc post.cc
//   wr_builder.cc srq.cc ah.cc events.cc strings.cc kern_convert.cc      the API, by topic
//   not_supported.cc   what is not there: EOPNOTSUPP and one log line, never a crash
//   compat_1_0.cc      the entry points of libibverbs before 2006, which nothing uses any more
//   dlopen.cc          programs that load libibverbs at run time get this library
//   signals.cc         the program's handlers of SIGSEGV and SIGBUS stand behind ours
//   paths.cc sysfs_tree.cc  programs that look into /sys/class/infiniband or /dev/infiniband find files there
//
// How it gets in: LD_PRELOAD, own SONAME, every public symbol of libibverbs under its real version node. The dynamic
// linker binds by name and version in load order and does not compare file names, so every caller in the process comes
// here: the program, librdmacm, and the real libibverbs' own calls through its PLT. That is why all of the API is
// here and not a part of it: a function left to the real library would read private fields that our objects lack.
//
// Rules inside:
//   - Nothing starts when the library is loaded: shells and other children inherit the preload.
//   - Every call into the engine happens under an EngineLock. Locks are taken in the order engine, then event queue.
//   - Structures are given the newest known size and have zeroed room behind them: programs built against any rdma-core
//     since v13 find their fields, and provider libraries that peek behind an object find nothing of theirs.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "uroce/limits.h"

// The header turns these into calls of inline functions; here the functions themselves are meant.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define UROCE_VERBS_EXPORT extern "C" __attribute__((visibility("default")))

namespace uroce::verbs {

inline constexpr char kDeviceName[] = "uroce0";
inline constexpr char kUverbsName[] = "uverbs0";
inline constexpr char kFirmwareVersion[] = "uroce-0.1";
inline constexpr char kLibraryName[] = "liburoce_verbs.so";  // its SONAME

// Multicast bit set: never assigned to a vendor.
inline constexpr unsigned kVendorId = 0x75726f;
inline constexpr unsigned kVendorPartId = 1;

// What the device says it can do, and what create functions hold programs to.
inline constexpr unsigned kMaxSge = kMaxSges;
inline constexpr unsigned kMaxQpWr = kMaxQueueEntries;
inline constexpr unsigned kMaxCqe = kMaxCqEntries;
inline constexpr unsigned kMaxSrqWr = kMaxQueueEntries;
inline constexpr unsigned kMaxReads = 128;  // READs and atomics under way per QP, both directions
inline constexpr unsigned kPkeys = 1;
inline constexpr unsigned short kPkey = 0xffff;

/// How a function ends that returns an error's number: programs that ask `perror` find it in errno too.
inline int with_errno(int error) {
  if (error != 0) errno = error;
  return error;
}

}  // namespace uroce::verbs
