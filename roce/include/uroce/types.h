// Types that everything shares: QP types and states, access rights, completion statuses, events.
//
// Where verbs has a number for the same thing, the number here is the same.
#pragma once

#include <cstdint>

#include "uroce/export.h"

namespace uroce {

enum class QpType : uint8_t { kRc = 2, kUc = 3, kUd = 4, kRawPacket = 8, kXrcSend = 9, kXrcRecv = 10 };  // ibv_qp_type

/// Each message is a packet, and has a destination of its own.
constexpr bool is_datagram(QpType type) { return type == QpType::kUd || type == QpType::kRawPacket; }

/// The sequence numbers, acknowledgements and retries of RC.
constexpr bool is_reliable(QpType type) {
  return type == QpType::kRc || type == QpType::kXrcSend || type == QpType::kXrcRecv;
}

enum class QpState : uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr };  // ibv_qp_state

/// ibv_access_flags.
enum Access : uint32_t {
  kLocalWrite = 1,
  kRemoteWrite = 1 << 1,
  kRemoteRead = 1 << 2,
  kRemoteAtomic = 1 << 3,
  kMwBind = 1 << 4,
  kZeroBased = 1 << 5,
  kOnDemand = 1 << 6,  // the memory may come and go while it is registered; any region's may, and fails when it is gone
  kFlushGlobal = 1 << 8,
  kFlushPersistent = 1 << 9,  // a queue pair may allow it, but no memory has it
};

/// ibv_wc_status.
enum class WcStatus : uint8_t {
  kSuccess,
  kLocLenErr,
  kLocQpOpErr,
  kLocEecOpErr,
  kLocProtErr,
  kWrFlushErr,
  kMwBindErr,
  kBadRespErr,
  kLocAccessErr,
  kRemInvReqErr,
  kRemAccessErr,
  kRemOpErr,
  kRetryExcErr,
  kRnrRetryExcErr,
  kLocRddViolErr,
  kRemInvRdReqErr,
  kRemAbortErr,
  kInvEecnErr,
  kInvEecStateErr,
  kFatalErr,
  kRespTimeoutErr,
  kGeneralErr,
  kTmErr,
};

/// ibv_wc_opcode.
enum class WcOpcode : uint8_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInv = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kRecv = 128,
  kRecvRdmaWithImm = 129,
  // Of shared receive queues that match tags.
  kTmAdd = 130,
  kTmDel = 131,
  kTmSync = 132,
  kTmRecv = 133,
  kTmNoTag = 134,
};

/// ibv_wc_flags.
enum WcFlags : uint8_t {
  kWcGrh = 1,
  kWcWithImm = 2,
  kWcWithInv = 8,
  kWcTmSyncReq = 16,
  kWcTmMatch = 32,
  kWcTmDataValid = 64,
};

/// Why a work request failed, or a QP went to error: what an operator needs to know beyond the status. The number is
/// the completion's vendor_err; `cause_text` explains it.
enum class Cause : uint8_t {
  kNone,
  kFlushed,          // the QP was already in error, or was moved there by the program
  kTimeout,          // no answer after retry_cnt retransmissions
  kPeerUnresolved,   // the peer's MAC address never became known
  kSequenceRetries,  // NAK "PSN sequence error" more than retry_cnt times without progress
  kRnrRetries,       // RNR NAK more than rnr_retry times
  kNakInvalidRequest,
  kNakRemoteAccess,
  kNakRemoteOperational,
  kBadReadResponse,    // READ or atomic response of the wrong length or kind
  kLocalKey,           // lkey unknown, of another PD, or without the right
  kLocalRange,         // scatter/gather element outside its region
  kReceiveTooShort,    // message longer than the receive
  kMessageTooLong,     // longer than the port or the QP type carries
  kRemoteKey,          // responder: rkey unknown, wrong PD, range or right
  kRemoteInvalidate,   // responder: SEND with Invalidate names a key that cannot be invalidated
  kRequestNotEnabled,  // responder: QP access flags do not allow the operation
  kRequestMalformed,   // responder: opcode sequence, length, padding or alignment
  kReadResources,      // responder: more READs or atomics than max_dest_rd_atomic
  kCqOverrun,          // the completion queue was full
  kBindRefused,        // memory window bind or invalidation with a bad key, region, range or right
  kKeyBudget,          // UC receiver: more wrong rkeys than an honest peer sends
  kMemoryGone,         // registered memory was unmapped or protected, or its file truncated
  kXrcQueue,           // XRC target: the peer names no shared receive queue of the domain
  kTagHeader,          // tag matching: headers cut short, unknown, or a rendezvous that cannot be fetched
  kTagOutOfStep,       // tag matching: unexpected messages came that the program has not handled
  kTagGone,            // tag matching: the receive to be removed was taken by a message, or never there
  kFrameTooShort,      // raw packet shorter than an Ethernet header
  kNoReadDepth,        // a READ or an atomic on a QP whose own max_rd_atomic is 0
};

/// ibv_event_type: those events that a software device raises.
enum class AsyncEvent : uint8_t {
  kCqErr = 0,
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kPortActive = 9,
  kPortErr = 10,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
  kGidChange = 18,
};

/// How a QP recovers from lost packets (doc/congestion.md).
enum class LossRecovery : uint8_t {
  kGoBackN,    // as the specification says; nothing on the wire differs from it
  kAuto,       // selective repeat with peers that sign their packets, go-back-N with all others
  kSelective,  // the peer is assumed to know selective repeat: for tests
};

UROCE_API const char* cause_text(Cause cause);
UROCE_API const char* wc_status_name(WcStatus status);
UROCE_API const char* qp_state_name(QpState state);
UROCE_API const char* qp_type_name(QpType type);

inline constexpr uint32_t kMaxMessageBytes = 1u << 31;
inline constexpr uint32_t kGrhBytes = 40;

/// The number of a protection domain; 0 is none.
using PdId = uint32_t;

/// The number of an XRC domain; 0 is none.
using XrcdId = uint32_t;

}  // namespace uroce
