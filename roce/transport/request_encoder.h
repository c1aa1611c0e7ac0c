// Writes one packet of a work request as bytes. Used by the reliable requester and by UnackedSender.
#pragma once

#include <cstdint>

#include "transport/qp_context.h"
#include "transport/send_queue.h"
#include "uroce/port.h"
#include "uroce/psn.h"

namespace uroce {

enum class AckRequest : bool { kNo, kYes };

/// Writes packet `index` (0-based) of `wqe` into `frame`, with sequence number `psn`. For a READ, `index` is how many
/// responses have already arrived: the request asks for the rest, or for `read_packets` of it. Returns a cause other
/// than kNone when the local memory may not be read; the frame must not be used then.
Cause encode_request(QpContext& context, const SendWqe& wqe, uint32_t index, Psn psn, AckRequest ack_request,
                     TxFrame& frame, uint32_t read_packets = UINT32_MAX);

/// The work completion status for a local failure.
WcStatus status_of(Cause cause);
Cause cause_of(AccessCheck check);

}  // namespace uroce
