// Why a responder refuses a request for good, and what each side is told of it.
#pragma once

#include "uroce/types.h"
#include "wire/headers.h"

namespace uroce {

struct Refusal {
  NakCode code;             // to the peer
  Cause cause;              // to whoever looks for the reason here
  WcStatus receive_status;  // of the receive in use, if there is one
};

namespace refusal {

inline constexpr Refusal kMalformed{NakCode::kInvalidRequest, Cause::kRequestMalformed, WcStatus::kRemInvReqErr};
inline constexpr Refusal kNotEnabled{NakCode::kInvalidRequest, Cause::kRequestNotEnabled, WcStatus::kRemInvReqErr};
inline constexpr Refusal kTooManyReads{NakCode::kInvalidRequest, Cause::kReadResources, WcStatus::kRemInvReqErr};
inline constexpr Refusal kReceiveTooShort{NakCode::kInvalidRequest, Cause::kReceiveTooShort, WcStatus::kLocLenErr};
inline constexpr Refusal kKey{NakCode::kRemoteAccessError, Cause::kRemoteKey, WcStatus::kLocAccessErr};
inline constexpr Refusal kInvalidate{NakCode::kRemoteAccessError, Cause::kRemoteInvalidate, WcStatus::kLocAccessErr};
/// The key is good, but the memory is not there: for the peer that is no difference.
inline constexpr Refusal kMemoryGone{NakCode::kRemoteAccessError, Cause::kMemoryGone, WcStatus::kLocAccessErr};
/// An atomic's word is aligned for the peer, but not here: the region was registered with an iova of its own.
inline constexpr Refusal kMisaligned{NakCode::kRemoteOperationalError, Cause::kRequestMalformed, WcStatus::kRemOpErr};
/// The key of a READ was good when the request came, and is not any more.
inline constexpr Refusal kKeyGone{NakCode::kRemoteOperationalError, Cause::kRemoteKey, WcStatus::kRemOpErr};

/// The program's own receive may not be written, for this reason.
constexpr Refusal receive_unusable(Cause cause) {
  return {NakCode::kRemoteOperationalError, cause, WcStatus::kLocProtErr};
}

}  // namespace refusal

}  // namespace uroce
