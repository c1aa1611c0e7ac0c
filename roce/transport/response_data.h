// The data of responses: checked against what was asked for, and stored in the program's memory.
#pragma once

#include "transport/qp_context.h"
#include "transport/send_queue.h"
#include "wire/packet.h"

namespace uroce {

/// The next response of the READ `wqe`. `parts_asked`: a peer that was asked for a part of a READ says "last" where the
/// part ends. A cause other than kNone: the response is not what was asked for, or the memory may not be written.
Cause store_read_response(const QpContext& context, const SendWqe& wqe, const PacketView& packet, bool parts_asked);
/// The response of the atomic `wqe`. A cause other than kNone: the memory may not be written.
Cause store_atomic_response(const QpContext& context, const SendWqe& wqe, const PacketView& packet);

}  // namespace uroce
