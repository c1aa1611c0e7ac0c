// Requests that come before their turn from peers that know selective repeat are held, and reported with selective
// ACKs.
//
// An RNR NAK or a fatal NAK drops what is held: the specification lets a responder forget everything behind the packet
// that it refuses, the requester sends all of it again, and so no slot of the pool is kept for the time of an RNR
// timer.
#include "transport/packet_count.h"
#include "transport/responder.h"

namespace uroce {

namespace {

constexpr int32_t kFarthest = 1 << 22;  // what is held must lie within a quarter of the circle

/// PSNs that a request takes, or 0 when it asks for more than may be held.
uint32_t psns_of(const PacketView& packet, uint32_t mtu) {
  if (packet.info->operation != Operation::kReadRequest) return 1;
  const uint32_t psns = packets_of(packet.reth().dma_length, mtu);
  return psns < static_cast<uint32_t>(kFarthest) ? psns : 0;
}

}  // namespace

/// False when the packet cannot be held, or comes from a peer that does not know selective repeat. Then go-back-N deals
/// with the gap.
bool Responder::hold(const PacketView& packet, Instant now) {
  if (!context_.peer.selective()) {
    early_.clear();
    return false;
  }
  // A NAK was sent, so the peer sends everything from there on again.
  if (sequence_.silent()) return false;
  const uint32_t psns = psns_of(packet, context_.mtu);
  const int32_t ahead = distance(sequence_.next(), packet.bth.psn);
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
  ack_.require_ack();
  return true;
}

/// The gap may have closed: packets that are held and now have their turn are treated like packets that arrive.
Outcome Responder::feed(Instant now) {
  PacketView packet;
  bool fed = false;
  Outcome outcome = Outcome::kGoesOn;
  while (outcome == Outcome::kGoesOn && !sequence_.silent() && early_.take(sequence_.next(), packet)) {
    fed = true;
    outcome = on_in_order(packet, now);
  }
  if (outcome != Outcome::kGoesOn || sequence_.silent()) early_.clear();
  // The peer relies on hearing that the gap has closed. A response tells it, too.
  if (fed && replies_.empty()) ack_.require_ack();
  return outcome;
}

}  // namespace uroce
