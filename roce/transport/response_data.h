// Checks the data of responses against what was asked for, and stores them in the program's memory.
#pragma once

#include "packet/packet.h"
#include "transport/qp_context.h"
#include "transport/send_queue.h"

namespace uroce {

/// Stores the next response of the READ `wqe`. With `parts_asked` a response may be a "last" one before the end of the
/// READ, because the peer was asked for parts. Returns a cause other than kNone when the response is not what was asked
/// for, or when the memory may not be written.
Cause store_read_response(const QpContext& context, const SendWqe& wqe, const PacketView& packet, bool parts_asked);
/// Stores the response of the atomic `wqe`. Returns a cause other than kNone when the memory may not be written.
Cause store_atomic_response(const QpContext& context, const SendWqe& wqe, const PacketView& packet);

}  // namespace uroce
