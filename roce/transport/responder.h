// The reliable responder: checks requests in the specification's order, carries them out, and answers.
//
// Answers leave in PSN order. READ responses and atomic results wait in the ReplyQueue; the Acknowledger knows whether
// an ACK or a NAK is owed behind them, and whether it waits. The ExecutedLog has the requests that may be repeated. The
// ReceiveSequence decides which packet comes next and what the peer is told of a gap, the InboundMessage whether a
// packet fits the message under way.
//
// From a peer that knows selective repeat, packets that come too early are held until the gap in front of them closes,
// and then go through the same checks in the same order as all others.
//
// responder.cc receives; responder_reply.cc answers; responder_duplicate.cc handles repeated requests;
// selective_responder.cc those that came too early. memory_placement.cc carries out FLUSH and ATOMIC WRITE.
#pragma once

#include <cstdint>
#include <optional>

#include "packet/packet.h"
#include "transport/acknowledger.h"
#include "transport/executed_log.h"
#include "transport/inbound_message.h"
#include "transport/outcome.h"
#include "transport/qp_context.h"
#include "transport/receive_sequence.h"
#include "transport/receive_slot.h"
#include "transport/refusal.h"
#include "transport/reorder_buffer.h"
#include "transport/reply_queue.h"
#include "transport/tag_arrivals.h"
#include "uroce/port.h"
#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

class Responder {
 public:
  Responder(QpContext& context, ReceiveQueue& own, SendQueue& sends);

  /// To be called before INIT -> RTR: makes room for so many READs and atomics.
  void make_room(uint32_t depth);
  /// INIT -> RTR: the first request has PSN attributes.rq_psn.
  void start();
  void reset();
  /// attributes.max_dest_rd_atomic is about to change while requests are under way.
  void change_depth(uint32_t depth);

  Outcome on_request(const PacketView& packet, Instant now);
  /// To be called when `next_timeout` has come: the delay of an ACK may be over.
  void on_timeout(Instant now) { ack_.on_timeout(now); }
  Instant next_timeout() const { return ack_.next_timeout(); }
  bool wants_transmit() const { return !replies_.empty() || ack_.due(); }
  PollResult poll_transmit(TxFrame& frame);
  /// True when the next frame carries data, which keeps to the QP's rate.
  bool next_is_read_response() const { return replies_.read_is_next(); }

  void on_send_posted() { ack_.on_send_posted(); }
  /// The program posted a receive. A peer that has run out of credit is told so.
  void on_receive_posted();
  /// Lets a delayed ACK leave with the next frames.
  void end_ack_delay() { ack_.end_delay(); }
  bool delays_ack() const { return ack_.delayed(); }

  /// Flushes receives. An answer that explains the error to the peer is still sent.
  void flush(Instant now);
  /// XRC: the shared receive queue of the message under way goes away.
  void forget_xrc_queue();
  /// Nothing is to be sent any more.
  void silence();

  Psn epsn() const { return sequence_.next(); }
  uint32_t msn() const { return sequence_.msn(); }
  uint32_t packets_held() const { return early_.packets(); }

 private:
  // responder.cc
  Outcome on_in_order(const PacketView& packet, Instant now);
  bool enter_xrc_queue(const PacketView& packet);
  Outcome on_send(const PacketView& packet, Instant now);
  Outcome on_write(const PacketView& packet, Instant now);
  const Refusal* begin_write(const PacketView& packet);
  Outcome on_read(const PacketView& packet, Instant now);
  Outcome on_atomic(const PacketView& packet, Instant now);
  Outcome on_placement(const PacketView& packet, Instant now);
  Outcome accept(const PacketView& packet, uint32_t psns, Instant now);
  Outcome deliver(const PacketView& packet, WcOpcode opcode, uint32_t byte_len, Instant now);
  Outcome refuse(const Refusal& why, Instant now);
  Outcome refuse_reply(const Refusal& why);
  void end_with(const Refusal& why);
  Outcome receiver_not_ready();

  // selective_responder.cc
  bool hold(const PacketView& packet, Instant now);
  Outcome feed(Instant now);

  // responder_duplicate.cc
  void on_duplicate(const PacketView& packet);
  void on_duplicate_read(const PacketView& packet);
  void on_duplicate_atomic(const PacketView& packet);
  bool answer_again(const Reply& reply);

  // responder_reply.cc
  PollResult send_read_response(const Reply& reply, uint32_t bytes, TxFrame& frame);
  Outcome break_off(const Reply& reply, const Refusal& why);
  void send_answer(TxFrame& frame);
  uint8_t ack_syndrome();

  QpContext& context_;
  ReceiveSlot receive_;
  TagArrivals tags_;
  ReorderBuffer early_;

  ReceiveSequence sequence_;
  InboundMessage message_;
  ReplyQueue replies_;
  ExecutedLog executed_;
  Acknowledger ack_;
  bool established_ = false;         // the first request was received
  bool answers_leave_ = false;       // in ERR: those of earlier requests
  std::optional<Psn> credit_limit_;  // the MSN up to which the peer knows of receives; none: it was not told
};

/// Whether a QP with these access flags takes the operation. A FLUSH depends on its placement (placement.h).
bool allows(uint32_t access, Operation operation);

}  // namespace uroce
