// Requests that come before their turn, from peers that know selective repeat: held, and reported with selective ACKs.
//
// An RNR NAK or a fatal NAK drops what is held: the specification lets a responder forget everything behind the packet
// that it refuses, the requester sends all of it again, and slots of the pool do not wait out an RNR timer.
#include <array>

#include "transport/frame_builder.h"
#include "transport/responder.h"
#include "wire/sack.h"

namespace uroce {

namespace {

constexpr int32_t kFarthest = 1 << 22;  // what is held must lie within a quarter of the circle

/// PSNs that a request takes, or 0 when it asks for more than may be held.
uint32_t psns_of(const PacketView& packet, uint32_t mtu) {
  if (packet.info->operation != Operation::kReadRequest) return 1;
  const uint32_t bytes = packet.reth().dma_length;
  const uint32_t psns = bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
  return psns < static_cast<uint32_t>(kFarthest) ? psns : 0;
}

}  // namespace

/// False: a stranger's packet, or one that nothing can be done for; go-back-N deals with it.
bool Responder::hold(const PacketView& packet, Instant now) {
  if (!context_.peer.selective()) {
    early_.clear();
    return false;
  }
  // A NAK is out: the peer sends everything from there on again.
  if (out_of_sequence_) return false;
  const uint32_t psns = psns_of(packet, context_.mtu);
  const int32_t ahead = distance(epsn_, packet.bth.psn);
  const bool near = psns != 0 && ahead + static_cast<int32_t>(psns) < kFarthest;
  switch (near ? early_.hold(packet, psns, now) : ReorderBuffer::Result::kFull) {
    case ReorderBuffer::Result::kHeld:
      context_.counters().rx_out_of_order_held++;
      break;
    case ReorderBuffer::Result::kAgain:
      context_.counters().rx_drop_held_already++;
      break;
    case ReorderBuffer::Result::kFull:
      context_.counters().rx_drop_reorder_full++;
      if (early_.empty()) return false;
      break;
  }
  if (answer_ == Answer::kNone) answer_ = Answer::kAck;
  held_ = false;
  return true;
}

/// The gap may have closed: what is held goes the way of packets that arrive.
void Responder::feed(Instant now) {
  PacketView packet;
  bool fed = false;
  while (!context_.failed && !out_of_sequence_ && early_.take(epsn_, packet)) {
    fed = true;
    on_in_order(packet, now);
  }
  if (context_.failed || out_of_sequence_) early_.clear();
  // The peer counts on hearing that the gap closed. A response tells it too.
  if (fed && answer_ != Answer::kNak && replies_.empty()) {
    answer_ = Answer::kAck;
    held_ = false;
  }
}

void Responder::send_selective_ack(TxFrame& frame) {
  std::array<SackRange, kSackRangesMax> ranges;
  const uint32_t count = early_.recent(ranges);
  std::array<uint8_t, kSackRangesMax * SackRange::kBytes> bytes;
  for (uint32_t i = 0; i < count; i++) ranges[i].encode(bytes.data() + i * SackRange::kBytes);
  Bth bth;
  bth.opcode = kOpcodeSack;
  bth.dest_qp = context_.attributes.dest_qpn;
  bth.psn = epsn_ - 1;
  FrameBuilder builder(frame, context_.header, bth, Aeth::kBytes, count * SackRange::kBytes);
  Aeth{ack_syndrome(), msn_ & Psn::kMask}.encode(builder.ext());
  builder.begin_payload();
  builder.append(bytes.data(), count * SackRange::kBytes);
  builder.finish();
  context_.counters().tx_sack++;
}

}  // namespace uroce
