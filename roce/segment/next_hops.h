// Which program a frame of ours is for: what the port tells the engine once for each destination, and what it finds out
// itself of frames for which nobody asked.
#pragma once

#include "segment/frame_address.h"
#include "segment/peers.h"
#include "uroce/port.h"

namespace uroce::segment {

/// The places are peers.
class SegmentHops final : public NextHops {
 public:
  /// `peers` outlive it.
  explicit SegmentHops(Peers& peers) : peers_(peers) {}

  NextHop find(const MacAddress& dst, uint32_t dest_qpn) override { return {peer(dst, dest_qpn), peers_.epoch}; }
  bool congested(const NextHop& hop) override {
    const Peer& peer = *static_cast<const Peer*>(hop.place);
    return peer.lane && peer.lane->sender.congested();
  }
  const uint64_t& epoch() const override { return peers_.epoch; }

  /// The receiver of a frame; nullptr: it is not known, or there is not just one. Looking for a stranger may change
  /// what is known of the others, so the epoch is looked at for each frame.
  Peer* receiver_of(const TxFrame& frame) {
    if (frame.hop.place != nullptr && frame.hop.epoch == peers_.epoch) return static_cast<Peer*>(frame.hop.place);
    const FrameAddress destination = address_of_frame({frame.data, frame.bytes});
    return peer(destination.mac, destination.qpn);
  }

 private:
  Peer* peer(const MacAddress& mac, uint32_t qpn) { return qpn > kManagementQpn ? peers_.find(mac, qpn) : nullptr; }

  Peers& peers_;
};

}  // namespace uroce::segment
