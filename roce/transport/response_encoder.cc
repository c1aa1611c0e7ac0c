#include "transport/response_encoder.h"

#include "transport/frame_builder.h"

namespace uroce {

namespace {

Bth bth_of(const QpContext& context, uint8_t opcode, Psn psn) {
  Bth bth;
  bth.opcode = opcode;
  bth.dest_qp = context.attributes.dest_qpn;
  bth.psn = psn;
  return bth;
}

/// The AETH of a reply gives no credits; only those of ACKs do.
Aeth aeth_of(const Reply& reply) { return {make_syndrome(AethKind::kAck, kCreditsInvalid), reply.msn & Psn::kMask}; }

}  // namespace

void encode_acknowledge(const QpContext& context, Psn psn, const Aeth& aeth, TxFrame& frame) {
  const Bth bth = bth_of(context, make_opcode(context.service, kOpAcknowledge), psn);
  FrameBuilder builder(frame, context.header, bth, Aeth::kBytes, 0);
  aeth.encode(builder.ext());
  builder.finish();
}

void encode_selective_ack(const QpContext& context, Psn psn, const Aeth& aeth, std::span<const SackRange> ranges,
                          TxFrame& frame) {
  const auto bytes = static_cast<uint32_t>(ranges.size()) * SackRange::kBytes;
  FrameBuilder builder(frame, context.header, bth_of(context, kOpcodeSack, psn), Aeth::kBytes, bytes);
  aeth.encode(builder.ext());
  for (const SackRange& range : ranges) {
    uint8_t encoded[SackRange::kBytes];
    range.encode(encoded);
    builder.append(encoded, SackRange::kBytes);
  }
  builder.finish();
}

void encode_atomic_response(const QpContext& context, const Reply& reply, TxFrame& frame) {
  const Bth bth = bth_of(context, make_opcode(context.service, kOpAtomicAcknowledge), reply.psn);
  FrameBuilder builder(frame, context.header, bth, Aeth::kBytes + AtomicAckEth::kBytes, 0);
  aeth_of(reply).encode(builder.ext());
  AtomicAckEth{reply.original}.encode(builder.ext() + Aeth::kBytes);
  builder.finish();
}

bool encode_read_response(const QpContext& context, const Reply& reply, const uint8_t* memory, uint32_t bytes,
                          TxFrame& frame) {
  const bool first = !reply.begun;
  const bool last = bytes == reply.remaining;
  const uint8_t low = first ? (last ? kOpReadResponseOnly : kOpReadResponseFirst)
                            : (last ? kOpReadResponseLast : kOpReadResponseMiddle);
  const uint32_t ext_bytes = first || last ? Aeth::kBytes : 0;
  const Bth bth = bth_of(context, make_opcode(context.service, low), reply.psn);
  FrameBuilder builder(frame, context.data_header, bth, ext_bytes, bytes);
  if (ext_bytes != 0) aeth_of(reply).encode(builder.ext());
  if (bytes != 0 && !builder.append_registered(memory, bytes)) return false;
  builder.finish();
  return true;
}

}  // namespace uroce
