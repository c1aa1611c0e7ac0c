// The services without acknowledgement: UC, UD and raw packets. One sender, and a receiver for each.
#pragma once

#include "packet/packet.h"
#include "transport/datagram.h"
#include "transport/outcome.h"
#include "transport/raw_packet.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

/// A service as `Qp` knows it (qp_services.h).
template <typename Receiver>
class UnackedService {
 public:
  UnackedService(QpContext& context, SendQueue& sends, ReceiveQueue& receives)
      : sender_(context, sends), receiver_(context, receives) {}

  Receiver& receiver() { return receiver_; }

  void start_receiving() { receiver_.start(); }
  void start_sending() { sender_.start(); }
  void reset() {
    sender_.start();
    receiver_.reset();
  }
  Outcome on_packet(const PacketView& packet, Instant now) { return receiver_.on_request(packet, now); }

  bool wants_transmit() const { return sender_.wants_transmit(); }
  bool wants_data() const { return sender_.wants_transmit(); }
  PollResult poll_transmit(TxFrame& frame, Instant now) { return sender_.poll_transmit(frame, now); }

  void flush_sends(Instant now) { sender_.flush(now); }
  void flush_receives(Instant now) { receiver_.flush(now); }
  bool drained() const { return sender_.drained(); }

  // Nobody answers, and nothing is asked for twice.
  static void make_room(QpState, uint32_t) {}
  static void show() {}
  static void hide() {}
  static Outcome on_timeout(Instant) { return Outcome::kGoesOn; }
  static Instant next_timeout() { return Instant::never(); }
  static bool wants_answer() { return false; }
  static PollResult poll_answer(TxFrame&) { return {}; }
  static void on_send_posted() {}
  static void on_receive_posted() {}
  static void on_path_resolved() {}
  static void end_ack_delay() {}
  static void forget_xrc_queue() {}
  static void silence() {}

 private:
  UnackedSender sender_;
  Receiver receiver_;
};

}  // namespace uroce
