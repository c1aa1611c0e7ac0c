// What a program posts and what it gets back.
//
// All pointers in here point at memory of the calling program and are used only during the call, except the memory that
// the scatter/gather elements name, which belongs to the transport until the work request completes.
#pragma once

#include <cstdint>

#include "uroce/types.h"

namespace uroce {

struct Sge {
  uint64_t addr = 0;  // as the region names it (iova); for inline data a plain pointer
  uint32_t length = 0;
  uint32_t lkey = 0;
};

enum class WrOpcode : uint8_t {
  kRdmaWrite = 0,  // ibv_wr_opcode
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInv = 7,
  kBindMw = 8,
  kSendWithInv = 9,
  kFlush = 14,
  kAtomicWrite = 15,
};

/// ibv_send_flags.
enum SendFlags : uint8_t { kSendFence = 1, kSendSignaled = 2, kSendSolicited = 4, kSendInline = 8 };

/// Where a UD message goes. A device makes it from address attributes.
struct AddressHandle;

/// Memory window bind, for WrOpcode::kBindMw.
struct MwBind {
  uint32_t mw_rkey = 0;   // the window, by any of its keys
  uint32_t new_rkey = 0;  // the key after the bind, which differs only in its low byte
  uint32_t mr_lkey = 0;
  uint64_t addr = 0;
  uint64_t length = 0;  // 0 unbinds
  uint32_t access = 0;
};

/// How far written data has to be before a FLUSH is answered; both may be asked for.
enum FlushPlacement : uint8_t { kFlushToGlobal = 1, kFlushToPersistent = 2 };

/// What a FLUSH is about: the range that it names, or all of the region or window.
enum class FlushLevel : uint8_t { kRange = 0, kRegion = 1 };

struct Flush {
  uint32_t length = 0;  // of the range at `remote_addr`
  uint8_t placement = kFlushToGlobal;
  FlushLevel level = FlushLevel::kRange;
};

struct SendWr {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  uint8_t flags = 0;  // SendFlags
  const Sge* sges = nullptr;
  uint32_t num_sge = 0;
  uint32_t imm_or_rkey = 0;  // immediate data as it lies in memory, or the key to invalidate
  uint64_t remote_addr = 0;  // WRITE, READ, atomics, FLUSH, ATOMIC_WRITE
  uint32_t rkey = 0;
  uint32_t remote_srqn = 0;  // XRC: the number of the peer's shared receive queue
  uint64_t compare_add = 0;
  uint64_t swap = 0;                  // ATOMIC_WRITE: the eight bytes as they lie in memory
  const AddressHandle* ah = nullptr;  // UD; must live until the completion
  uint32_t remote_qpn = 0;
  uint32_t remote_qkey = 0;
  MwBind bind;
  Flush flush;
};

struct RecvWr {
  uint64_t wr_id = 0;
  const Sge* sges = nullptr;
  uint32_t num_sge = 0;
};

/// Why a post was refused. Nothing of the refused work request was queued.
enum class PostResult : uint8_t {
  kOk,
  kQueueFull,       // ENOMEM
  kBadState,        // EINVAL: RESET (receive), RESET/INIT/RTR (send)
  kTooManySges,     // EINVAL
  kInlineTooLong,   // EINVAL
  kInlineNotThere,  // EFAULT
  kBadOpcode,       // EINVAL: not for this QP type
  kTooLong,         // EINVAL: over 2^31 bytes, or over the MTU on UD
  kBadAddressHandle,
};

/// RoCE has no service level to report with a datagram. In its place drivers report which kind of IP header is in the
/// GRH area, and programs (UCX) rely on that alone to find the addresses in it.
enum class DatagramHeader : uint8_t { kIpv6 = 1, kIpv4 = 2 };

struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  uint8_t flags = 0;  // WcFlags
  Cause cause = Cause::kNone;
  uint32_t byte_len = 0;
  uint32_t imm_or_rkey = 0;  // immediate data as on the wire, or the key that the peer invalidated
  uint32_t qp_num = 0;
  uint32_t src_qp = 0;  // UD; kWcTmMatch: the sender's context in the header
  uint16_t pkey_index = 0;
  uint8_t sl = 0;            // UD, received: a DatagramHeader
  uint32_t flow_tag = 0;     // raw packets: that of the flow which brought the frame here
  int64_t timestamp_ns = 0;  // the device's clock when the completion was made
  uint64_t tag = 0;          // kWcTmMatch
};

}  // namespace uroce
