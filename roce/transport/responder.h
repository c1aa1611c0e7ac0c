// The reliable responder: checks requests in the specification's order, carries them out, and answers.
//
// Answers leave in PSN order. READ responses and atomic results wait in `replies_`; a plain ACK or NAK is only a flag,
// and what it says is made when it leaves: one ACK answers everything received until then.
//
// An ACK may be held for a moment when the program is likely to answer the message with one of its own: then the ACK
// leaves behind that message in the same burst (doc/adr). A READ, an atomic, a second message or the hold time ends it.
//
// From a peer that knows selective repeat, packets that come too early are held until the gap in front of them closes,
// and then go through the same checks in the same order as all others.
//
// responder.cc receives; responder_reply.cc answers; responder_duplicate.cc deals with what was received before;
// selective_responder.cc with what came too early.
#pragma once

#include <cstdint>
#include <vector>

#include "base/psn.h"
#include "base/ring.h"
#include "base/time.h"
#include "transport/qp_context.h"
#include "transport/receive_slot.h"
#include "transport/reorder_buffer.h"
#include "transport/tx_frame.h"
#include "wire/packet.h"

namespace uroce {

class Responder {
 public:
  Responder(QpContext& context, ReceiveQueue& own);

  /// Before INIT -> RTR: room for so many READs and atomics.
  void make_room(uint32_t depth);
  /// INIT -> RTR: the first request has PSN attributes.rq_psn.
  void start();
  void reset();
  /// attributes.max_dest_rd_atomic is about to change while requests are under way.
  void change_depth(uint32_t depth);

  void on_request(const PacketView& packet, Instant now);
  /// The hold time of an ACK ran out.
  void on_timeout(Instant now);
  Instant next_timeout() const { return held_ ? hold_until_ : Instant::never(); }
  bool wants_transmit() const { return !replies_.empty() || (answer_ != Answer::kNone && !held_); }
  bool poll_transmit(TxFrame& frame, Instant now);
  /// The next frame carries data: it keeps to the QP's rate.
  bool next_is_read_response() const { return !replies_.empty() && !replies_.at(replies_.head()).atomic; }

  /// The program posted a send: if it answers a message, ACKs will wait for such posts from now on.
  void on_send_posted();
  /// The program posted a receive: a peer that ran out of credit is told.
  void on_receive_posted();
  /// An ACK that is held leaves with the next frames.
  void release_held() { held_ = false; }
  bool holds_ack() const { return held_; }

  /// Flushes receives. An answer that explains the error to the peer stays to be sent.
  void flush(Instant now);
  /// Nothing is to be sent any more.
  void silence();

  Psn epsn() const { return epsn_; }
  uint32_t msn() const { return msn_; }
  uint32_t packets_held() const { return early_.packets(); }

 private:
  enum class Answer : uint8_t { kNone, kAck, kNak };

  /// Packets of a message, or of a READ's responses.
  static uint32_t packets_of(uint32_t bytes, uint32_t mtu) { return bytes == 0 ? 1 : (bytes - 1) / mtu + 1; }

  /// A READ or atomic whose response is not sent in full.
  struct Reply {
    bool atomic = false;
    bool again = false;  // was answered in full before: owed to nobody who keeps to his max_rd_atomic
    Psn psn;             // of the next response packet
    uint32_t msn = 0;
    uint64_t va = 0;  // READ: of the next response packet
    uint32_t rkey = 0;
    uint32_t remaining = 0;
    bool begun = false;
    uint64_t original = 0;  // atomic: the value before
    Psn end(uint32_t mtu) const { return psn + packets_of(remaining, mtu); }
  };
  /// A READ or atomic that was carried out. The last max_dest_rd_atomic of them are remembered: a peer has no more in
  /// flight, so it asks for no other again.
  struct Executed {
    Operation operation = Operation::kSend;  // kSend: an empty place
    Psn psn;                                 // of its first response
    Reth read;
    Psn furthest_replay;  // READ: the furthest place from which it was asked for again
    // READ: how many packets were asked for again since its requester got further in it, or in an older one.
    uint32_t replayed_packets = 0;
    AtomicEth atomic;
    uint64_t original = 0;  // atomic: the value before
  };

  // responder.cc
  void on_in_order(const PacketView& packet, Instant now);
  bool check_sequence(const OpcodeInfo& info) const;
  bool check_enabled(Operation operation) const;
  bool check_length(const PacketView& packet) const;
  void on_send(const PacketView& packet, Instant now);
  void on_write(const PacketView& packet, Instant now);
  bool begin_write(const PacketView& packet, Instant now);
  void on_read(const PacketView& packet, Instant now);
  void on_atomic(const PacketView& packet, Instant now);
  bool may_reply();
  Executed& remember(const PacketView& packet);
  void accept(const PacketView& packet, uint32_t psns, Instant now);
  [[nodiscard]] bool deliver(const PacketView& packet, WcOpcode opcode, uint32_t byte_len, Instant now);
  void refuse(NakCode code, Cause cause, WcStatus receive_status, Instant now);
  void refuse_key(AccessCheck check, Instant now);
  void refuse_memory_gone(Instant now);
  void receiver_not_ready();

  // selective_responder.cc
  bool hold(const PacketView& packet, Instant now);
  void feed(Instant now);
  void send_selective_ack(TxFrame& frame);

  // responder_duplicate.cc
  void on_duplicate(const PacketView& packet);
  void on_duplicate_read(const PacketView& packet);
  void on_duplicate_atomic(const PacketView& packet);
  Executed* find_read(Psn psn, const Reth& reth);
  const Executed* find_atomic(const PacketView& packet) const;
  Executed& executed(uint32_t age);
  bool replay_allowed(const Executed& read) const;
  void count_replay(Executed& read, Psn psn, uint32_t packets);
  bool one_read(const Reply& a, const Reply& b) const;
  bool answer_again(Reply reply);
  void replace_replies(uint32_t from, uint32_t to, const Reply& reply);

  // responder_reply.cc
  void request_ack(Instant now);
  void request_nak(uint8_t syndrome);
  bool send_read_response(Reply& reply, TxFrame& frame, Instant now);
  void break_off(const Reply& reply, NakCode code, Cause cause, Instant now);
  void send_atomic_response(const Reply& reply, TxFrame& frame);
  void send_answer(TxFrame& frame);
  uint8_t ack_syndrome();

  QpContext& context_;
  ReceiveSlot receive_;
  ReorderBuffer early_;

  Psn epsn_;
  uint32_t msn_ = 0;
  uint32_t reads_last_ = 0;       // PSNs of READs and atomics behind the last SEND or WRITE: no ACK names them
  bool out_of_sequence_ = false;  // a NAK went out; silence until epsn_ arrives
  bool missed_ = false;           // packets from epsn_ on were dropped, up to:
  Psn missed_until_;
  bool in_message_ = false;
  Operation operation_ = Operation::kSend;  // of the message under way
  bool established_ = false;

  uint64_t write_va_ = 0;
  uint32_t write_rkey_ = 0;
  uint32_t write_remaining_ = 0;
  uint32_t write_length_ = 0;

  Ring<Reply> replies_;
  std::vector<Executed> executed_;  // a ring
  uint32_t executed_next_ = 0;

  Answer answer_ = Answer::kNone;
  uint8_t nak_syndrome_ = 0;
  bool held_ = false;
  Instant hold_until_ = Instant::never();
  Instant last_message_at_{0};
  bool message_unanswered_ = false;
  uint8_t answers_ = 0;  // how often lately a message was answered by a post: 0..3
  bool credits_granted_ = false;
  Psn credit_limit_;
};

}  // namespace uroce
