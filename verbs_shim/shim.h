// The verbs shim: a library that is preloaded into unmodified RDMA programs and gives them the device `uroce0`.
//
// Its parts:
//   verbs.map          which symbols leave the library, under which version nodes
//   objects.h          what a program's ibv_context, ibv_pd, ibv_qp ... really are
//   runtime.h          the one endpoint behind all contexts: opened late, shared, kept until exit
//   refusal.h          EOPNOTSUPP and one log line, for any signature
//   observer.cc        from the engine's events to completion channels, async events and the log
//   device.cc context.cc query.cc identity.cc domain.cc mr.cc advise.cc device_memory.cc mw.cc cq.cc cq_ex.cc
//   channel.cc qp.cc qp_modify.cc ece.cc post.cc wr_builder.cc srq.cc ah.cc events.cc import.cc strings.cc
//   kern_convert.cc xrc.cc xrc_domain.cc
//                      the API, by topic
//   handles.h          the objects that can be imported
//   later_abi.h        structures that the installed headers lack
//   not_supported.cc   what is not there: EOPNOTSUPP and one log line, never a crash
//   compat_1_0.cc      the entry points of libibverbs before 2006, which nothing uses any more
//   dlopen.cc          programs that load libibverbs at run time get this library
//   signals.cc         the program's handlers of SIGSEGV and SIGBUS stand behind ours
//   paths.cc sysfs_tree.cc  programs that look into /sys/class/infiniband or /dev/infiniband find files there
//   netlink_*.cc nldev*.cc running_objects.cc  programs that ask RDMA netlink (iproute2's rdma) are answered
//   rdma_cm_device.cc rdma_cm_calls.cc ucma_*.cc  /dev/infiniband/rdma_cm, for the distribution's librdmacm
//
// How programs come to use it: it is preloaded (LD_PRELOAD), has a SONAME of its own, and exports every public symbol
// of libibverbs under its real version node. The dynamic linker binds by name and version in load order and does not
// compare file names, so all callers in the process reach it: the program, librdmacm, and the real libibverbs' own
// calls through its PLT. That is why it has all of the API and not only a part: a function left to the real library
// would read private fields that our objects lack.
//
// Rules of the implementation:
//   - Nothing starts when the library is loaded: shells and other children inherit the preload.
//   - Every call into the engine happens under an EngineLock. Locks are taken in the order engine, then event queue.
//   - Structures have the newest known size and zeroed room behind them: so programs built against any rdma-core since
//     v13 find their fields, and provider libraries that look behind an object find nothing of theirs.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "uroce/limits.h"

// The header turns these into calls of inline functions; this library defines the functions themselves.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define UROCE_VERBS_EXPORT extern "C" __attribute__((visibility("default")))

namespace uroce::verbs {

inline constexpr char kDeviceName[] = "uroce0";
inline constexpr char kUverbsName[] = "uverbs0";
inline constexpr char kFirmwareVersion[] = "uroce-0.1";
inline constexpr char kLibraryName[] = "liburoce_verbs.so";  // its SONAME

// The multicast bit is set, so this is never assigned to a vendor.
inline constexpr unsigned kVendorId = 0x75726f;
inline constexpr unsigned kVendorPartId = 1;

inline constexpr unsigned kDeviceCapFlags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
                                            IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                                            IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                                            IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MANAGED_FLOW_STEERING;

// The limits that the device reports, and that create functions enforce.
inline constexpr unsigned kMaxSge = kMaxSges;
inline constexpr unsigned kMaxQpWr = kMaxQueueEntries;
inline constexpr unsigned kMaxCqe = kMaxCqEntries;
inline constexpr unsigned kMaxSrqWr = kMaxQueueEntries;
inline constexpr unsigned kMaxReads = 128;               // READs and atomics under way per QP, both directions
inline constexpr size_t kMaxDmBytes = size_t{16} << 20;  // of device memory, all pieces together
inline constexpr unsigned kMaxModeration = 0xffff;       // completions, or microseconds, that an event waits
inline constexpr unsigned kMaxRateKbps = 400'000'000;    // of a QP's rate limit
inline constexpr unsigned kPkeys = 1;
inline constexpr unsigned short kPkey = 0xffff;

/// For functions that return an error number: also sets errno, for programs that call `perror`.
inline int with_errno(int error) {
  if (error != 0) errno = error;
  return error;
}

}  // namespace uroce::verbs
