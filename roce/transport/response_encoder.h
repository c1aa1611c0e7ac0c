// What a responder sends, as bytes: ACKs and NAKs, selective ACKs, atomic results and READ responses.
#pragma once

#include <cstdint>
#include <span>

#include "transport/qp_context.h"
#include "transport/reply_queue.h"
#include "uroce/port.h"
#include "uroce/psn.h"
#include "wire/headers.h"
#include "wire/sack.h"

namespace uroce {

/// An ACK, or a NAK: the AETH's syndrome says which.
void encode_acknowledge(const QpContext& context, Psn psn, const Aeth& aeth, TxFrame& frame);
void encode_selective_ack(const QpContext& context, Psn psn, const Aeth& aeth, std::span<const SackRange> ranges,
                          TxFrame& frame);
void encode_atomic_response(const QpContext& context, const Reply& reply, TxFrame& frame);
/// The next packet of the reply, with `bytes` of payload from registered memory. False: that went away, and the frame
/// is not used.
[[nodiscard]] bool encode_read_response(const QpContext& context, const Reply& reply, const uint8_t* memory,
                                        uint32_t bytes, TxFrame& frame);

}  // namespace uroce
