// Writes what a responder sends as bytes: ACKs and NAKs, selective ACKs, atomic results and READ responses.
#pragma once

#include <cstdint>
#include <span>

#include "packet/headers.h"
#include "packet/sack.h"
#include "transport/qp_context.h"
#include "transport/reply_queue.h"
#include "uroce/port.h"
#include "uroce/psn.h"

namespace uroce {

/// Writes an ACK or a NAK; the AETH's syndrome says which.
void encode_acknowledge(const QpContext& context, Psn psn, const Aeth& aeth, TxFrame& frame);
void encode_selective_ack(const QpContext& context, Psn psn, const Aeth& aeth, std::span<const SackRange> ranges,
                          TxFrame& frame);
void encode_atomic_response(const QpContext& context, const Reply& reply, TxFrame& frame);
/// Writes the next packet of the reply, with `bytes` of payload from registered memory. False when that memory went
/// away; the frame must not be used then.
[[nodiscard]] bool encode_read_response(const QpContext& context, const Reply& reply, const uint8_t* memory,
                                        uint32_t bytes, TxFrame& frame);

}  // namespace uroce
