// The outgoing half of a turn: which QP may send, and which frames go to ourselves.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/frame_tap.h"
#include "engine/last_answers.h"
#include "engine/loopback.h"
#include "engine/management.h"
#include "engine/multicast_groups.h"
#include "engine/neighbours.h"
#include "engine/priority_flow_control.h"
#include "engine/qp_schedule.h"
#include "engine/qp_table.h"
#include "engine/steering.h"
#include "transport/counters.h"
#include "transport/peer_link.h"
#include "transport/qp.h"
#include "uroce/address.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

/// Fills frames of the port: pauses first, then neighbours' frames, congestion notifications, and QPs in turn. A QP
/// whose destination is congested waits, the others do not.
class Transmitter {
 public:
  /// The sources of frames, and where they go. All outlive the transmitter.
  struct Parts {
    Port& port;
    const QpTable& qps;
    QpSchedule& schedule;
    PriorityFlowControl& pfc;
    Neighbours& neighbours;
    Loopback& loopback;
    const FrameTap& tap;
    Management& management;
    MulticastGroups& multicast;
    Steering* steering = nullptr;  // nullptr: there are no flows
  };
  /// `mac`: our own.
  Transmitter(const Parts& parts, Counters& counters, const MacAddress& mac)
      : parts_(parts),
        counters_(counters),
        mac_(mac),
        by_destination_(parts.port.queues_by_destination()),
        hops_(parts.port.next_hops()),
        epoch_(hops_ != nullptr ? &hops_->epoch() : nullptr),
        kept_(counters) {}

  /// Sends some bursts, as long as there is more to send. Returns how many frames the port was given, and one more if
  /// something was copied without frames.
  uint32_t transmit(Instant now) { return anything_waits(now) ? transmit_bursts(now) : 0; }
  /// To be called before `qp` is destroyed or ends: a peer that waits for a last ACK gets it, before what other QPs
  /// send. When the port has no room now, or the priority is paused, it is kept and leaves later.
  void send_last_ack(Qp& qp, Instant now);
  /// That queue pair of a peer has a new connection: what it was owed in the one before is owed to nobody.
  void forget_answers(uint32_t peer_qpn) { kept_.forget(peer_qpn); }
  /// Whether answers of QPs that ended can leave as soon as the port has room.
  bool keeps_answers() const { return !kept_.empty() && kept_.any_for(parts_.pfc.paused()); }

 private:
  static constexpr uint32_t kSendBurst = 32;

  /// True when a pause or a neighbour's frame is due.
  bool host_waits(Instant now) const {
    return parts_.neighbours.next_timeout() <= now || parts_.multicast.membership().next_timeout() <= now ||
           parts_.pfc.wants_transmit(now);
  }
  /// QPs that wait for the end of a pause count again when it is over.
  bool anything_waits(Instant now) {
    parts_.schedule.release_paused(parts_.pfc.paused());
    return parts_.schedule.wants_transmit() || parts_.management.wants_transmit() || host_waits(now) || keeps_answers();
  }
  uint32_t transmit_bursts(Instant now);
  uint32_t transmit_burst(uint32_t size, Instant now);
  void keep_answers(Qp& qp, Instant now);
  uint32_t send_host_frames(TxFrame* frames, uint32_t count, Instant now);
  uint32_t send_mads(TxFrame* frames, uint32_t count, Instant now);
  uint32_t send_cnps(TxFrame* frames, uint32_t* senders, uint32_t count, Instant now);
  uint32_t send_qp_frames(TxFrame* frames, uint32_t* senders, uint32_t count, Instant now);
  uint32_t send_frames_of(Qp& qp, PeerLink& link, std::span<TxFrame> frames, Instant now, bool& done);
  uint32_t send_raw_frames(Qp& qp, std::span<TxFrame> frames, Instant now);
  bool keep_from_port(TxFrame& frame, const PeerLink& link, uint32_t qpn, Instant now);
  bool keep_mad(TxFrame& frame, Instant now);
  void loop_back_raw(const TxFrame& frame);
  void loop_back_copy(const TxFrame& frame);
  void loop_back(const TxFrame& frame, uint32_t qpn, Instant now);
  bool is_congested(const Qp& qp, PeerLink& link);
  /// Whether frames to our own MAC are for this engine.
  bool leads_to_us(const PeerLink& link) const {
    return link.mac() == mac_ && parts_.loopback.is_open() && parts_.qps.owns(link.qpn());
  }
  NextHop hop_of(PeerLink& link) const { return hops_ != nullptr ? link.hop(*hops_, *epoch_) : NextHop{}; }
  bool blocked(uint8_t priority) const { return (parts_.pfc.paused() >> priority & 1) != 0; }

  const Parts parts_;
  Counters& counters_;
  const MacAddress mac_;
  const bool by_destination_;    // the port knows destinations that are congested alone
  NextHops* const hops_;         // of the port; nullptr: it has none
  const uint64_t* const epoch_;  // of the hops, if there are any
  const Qp* ending_ = nullptr;   // must send its frames now or never
  LastAnswers kept_;             // of QPs that ended
  // Of a burst. Not made anew in each: clearing them takes longer than sending a frame.
  std::array<TxFrame, kSendBurst> frames_;
  uint32_t senders_[kSendBurst];  // QP numbers of the frames; 0: the host's own
};

}  // namespace uroce
