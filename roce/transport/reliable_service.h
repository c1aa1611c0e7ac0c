// RC and XRC: a requester and a responder, and whose turn it is to send. Of an XRC connection, each side uses one of
// them.
#pragma once

#include <algorithm>

#include "packet/packet.h"
#include "transport/outcome.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/shown_queue_pair.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

/// A service as `Qp` knows it (qp_services.h).
class ReliableService {
 public:
  ReliableService(QpContext& context, SendQueue& sends, ReceiveQueue& receives)
      : context_(context), requester_(context, sends), responder_(context, receives, sends) {}

  const Requester& requester() const { return requester_; }
  const Responder& responder() const { return responder_; }

  void make_room(QpState to, uint32_t max_dest_rd_atomic);
  void start_receiving() { responder_.start(); }
  void start_sending() { requester_.start(); }
  void reset() {
    requester_.reset();
    responder_.reset();
  }
  void show() { show_.update(context_, responder_.epsn()); }
  void hide() { show_.hide(context_); }

  Outcome on_packet(const PacketView& packet, Instant now) {
    if (context_.peer.enabled()) context_.peer.on_packet(packet.signed_with(context_.peer_signature));
    if (packet.info->is_response()) return requester_.on_response(packet, now);
    const Outcome outcome = responder_.on_request(packet, now);
    show_.on_request(context_, responder_.epsn());
    return outcome;
  }
  Outcome on_timeout(Instant now);
  Instant next_timeout() const { return std::min(responder_.next_timeout(), requester_.next_timeout()); }

  bool wants_transmit() const {
    if (responder_.wants_transmit()) return true;
    const bool nothing_left = requester_.window().at_end() && requester_.selective_repeat() == nullptr;
    return !nothing_left && requester_.wants_transmit();  // asked several times a frame: no call for the usual no
  }
  PollResult poll_transmit(TxFrame& frame, Instant now);
  bool wants_answer() const { return responder_.wants_transmit() && !responder_.next_is_read_response(); }
  bool wants_data() const { return requester_.wants_transmit() || responder_.next_is_read_response(); }
  PollResult poll_answer(TxFrame& frame) { return responder_.poll_transmit(frame); }

  void on_send_posted() { responder_.on_send_posted(); }
  void on_receive_posted() { responder_.on_receive_posted(); }
  void on_path_resolved() { requester_.on_path_resolved(); }
  void end_ack_delay() { responder_.end_ack_delay(); }
  void forget_xrc_queue() { responder_.forget_xrc_queue(); }
  void silence() { responder_.silence(); }
  void flush_sends(Instant now) { requester_.flush(now); }
  void flush_receives(Instant now) { responder_.flush(now); }
  bool drained() const { return requester_.drained(); }

 private:
  QpContext& context_;
  Requester requester_;
  Responder responder_;
  QueuePairShow show_;
  bool answered_ = false;  // the last frame came from the responder
};

}  // namespace uroce
