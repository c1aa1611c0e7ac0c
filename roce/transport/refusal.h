// Why a responder refuses a request, mostly with a fatal NAK, and what each side is told.
#pragma once

#include "packet/headers.h"
#include "uroce/types.h"

namespace uroce {

struct Refusal {
  NakCode code;             // told to the peer
  Cause cause;              // reported on this side (Observer::on_responder_error)
  WcStatus receive_status;  // status of the receive in use, if there is one
  bool silent = false;      // no NAK is sent
};

namespace refusal {

inline constexpr Refusal kMalformed{NakCode::kInvalidRequest, Cause::kRequestMalformed, WcStatus::kRemInvReqErr};
inline constexpr Refusal kNotEnabled{NakCode::kInvalidRequest, Cause::kRequestNotEnabled, WcStatus::kRemInvReqErr};
inline constexpr Refusal kTooManyReads{NakCode::kInvalidRequest, Cause::kReadResources, WcStatus::kRemInvReqErr};
inline constexpr Refusal kReceiveTooShort{NakCode::kInvalidRequest, Cause::kReceiveTooShort, WcStatus::kLocLenErr};
inline constexpr Refusal kKey{NakCode::kRemoteAccessError, Cause::kRemoteKey, WcStatus::kLocAccessErr};
/// The message is there, and only its key is wrong: the specification knows no NAK for that. The peer's retries tell
/// it.
inline constexpr Refusal kInvalidate{NakCode::kRemoteAccessError, Cause::kRemoteInvalidate, WcStatus::kLocAccessErr,
                                     true};
/// The key is good, but the memory is not there. For the peer this makes no difference.
inline constexpr Refusal kMemoryGone{NakCode::kRemoteAccessError, Cause::kMemoryGone, WcStatus::kLocAccessErr};
/// The address of an atomic is aligned as the peer names it, but not in this process: the region was registered with an
/// iova that differs from its address.
inline constexpr Refusal kMisaligned{NakCode::kRemoteOperationalError, Cause::kRequestMalformed, WcStatus::kRemOpErr};
/// XRC: no such shared receive queue, or one of another domain.
inline constexpr Refusal kXrcQueue{NakCode::kInvalidRequest, Cause::kXrcQueue, WcStatus::kRemInvReqErr};
/// A message to a queue with tags whose headers are cut short, unknown, or ask for what cannot be read.
inline constexpr Refusal kTagHeader{NakCode::kInvalidRequest, Cause::kTagHeader, WcStatus::kRemInvReqErr};
/// The key of a READ was good when the request came, and is not any more.
inline constexpr Refusal kKeyGone{NakCode::kRemoteOperationalError, Cause::kRemoteKey, WcStatus::kRemOpErr};

/// The program's own receive may not be written, for this reason.
constexpr Refusal receive_unusable(Cause cause) {
  return {NakCode::kRemoteOperationalError, cause, WcStatus::kLocProtErr};
}

}  // namespace refusal

}  // namespace uroce
