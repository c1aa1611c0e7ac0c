// The reliable requester: turns the send queue into request packets, and answers into completions.
//
// Two positions move over the send queue. `una_` is the oldest sequence number without an answer; it lies in the work
// request at the head of the queue. The cursor (`cursor_`, `cursor_packet_`, `next_psn_`) is the next packet to send.
// Retransmission is nothing but moving the cursor back to `una_` (go-back-N): packets are made again from the
// program's memory, which belongs to us until completion.
//
// Towards a peer that knows selective repeat the cursor does not move back: what the scoreboard shows to be lost is
// sent again beside it, and of responses only what is missing is asked for again. Timeouts and NAKs mean go-back-N
// there too.
//
// requester.cc sends; completer.cc takes the answers; selective_requester.cc has what is between our own peers.
#pragma once

#include <cstdint>
#include <memory>

#include "base/psn.h"
#include "base/time.h"
#include "transport/qp_context.h"
#include "transport/rtt_sampler.h"
#include "transport/selective_repeat.h"
#include "transport/send_queue.h"
#include "transport/tx_frame.h"
#include "wire/packet.h"

namespace uroce {

class Requester {
 public:
  Requester(QpContext& context, SendQueue& queue);

  /// RESET -> ... -> RTS: numbers start at attributes.sq_psn.
  void start();
  /// What was posted after this stays; sequence numbers and timers are forgotten. The queue must be empty.
  void reset();

  bool wants_transmit() const;
  bool poll_transmit(TxFrame& frame, Instant now);
  void on_response(const PacketView& packet, Instant now);
  void on_timeout(Instant now);
  Instant next_timeout() const;
  /// Packets sent before the peer's MAC was known were lost: send them again, at no cost in retries.
  void on_path_resolved();
  /// Completes everything that is queued as flushed, in order.
  void flush(Instant now);
  /// No message is under way (SQD).
  bool drained() const;

  uint32_t packets_in_flight() const { return static_cast<uint32_t>(distance(una_, high_psn_)); }
  Psn una() const { return una_; }
  Psn next_psn() const { return next_psn_; }
  uint8_t retries_left() const { return retry_left_; }
  bool timed_out() const { return timeouts_ != 0; }  // and the peer has not got further since
  bool waits_for_receive() const { return rnr_wait_; }
  const RttSampler& rtt() const { return rtt_; }
  /// nullptr: go-back-N only.
  const SelectiveRepeat* selective_repeat() const { return selective_.get(); }

 private:
  // requester.cc
  bool may_send() const;
  bool credit_limited(const SendWqe& wqe) const;
  bool run_local(SendWqe& wqe, Instant now);
  void start_wqe(SendWqe& wqe);
  bool wants_ack(const SendWqe& wqe, uint32_t index);
  void advance_cursor(const SendWqe& wqe, Instant now);
  void set_local_error(Cause cause, Instant now);
  void rewind();
  void shrink_window();
  Duration answer_time() const;

  // completer.cc
  /// How far an acknowledgement got. Behind kFailed nothing may happen to the queue in this call.
  enum class [[nodiscard]] Reached : uint8_t{
      kAll,
      kBlocked,  // a READ or atomic stands in the way: its response was lost
      kFailed,   // the QP goes to error
  };
  enum class [[nodiscard]] Outcome : uint8_t{kGoesOn, kFailed};

  bool outstanding(Psn psn) const { return distance(una_, psn) >= 0 && psn.before(high_psn_); }
  void on_acknowledge(const PacketView& packet, Instant now);
  void measure(Psn psn, Instant now);
  void on_nak(NakCode code, Psn psn, Instant now);
  void on_rnr_nak(uint8_t timer, Psn psn, Instant now);
  void on_read_response(const PacketView& packet, Instant now);
  void on_other_response(Psn psn, Instant now);
  void on_atomic_response(const PacketView& packet, Instant now);
  bool reach_response(const PacketView& packet, Instant now);
  Reached acknowledge(Psn upto, Instant now);
  void implied_nak(Instant now);
  void retry(Cause when_exhausted, Instant now);
  void progress(Instant now);
  void learn_credits(const Aeth& aeth);
  Outcome complete_head(Instant now);
  void fail_head(Cause cause, Instant now);
  void take_head(Cause cause, Instant now);
  void settle_head(Instant now);

  // selective_requester.cc
  void on_selective_ack(const PacketView& packet, Instant now);
  void read_ranges(const PacketView& packet, Instant now);
  void on_delivered(Psn upto, Instant now);
  void check_dropped(Psn next, Instant now);
  void tell_rtt(Instant now);
  void hold_response(const PacketView& packet, Instant now);
  void on_blocked_ack(Instant now);
  void after_responses(Instant now);
  bool wants_again() const;
  bool poll_again(TxFrame& frame, Instant now);
  bool send_again(uint32_t entry, bool probe, TxFrame& frame, Instant now);
  bool ask_again(TxFrame& frame, Instant now);
  bool response_overdue() const;
  bool needs_responses(Psn from, Psn to) const;
  uint32_t find_response(Psn from) const;
  void check_gaps(bool first_at_once, Instant now);
  void on_activity(Instant now);
  void on_repeat_timer(Instant now);
  Instant repeat_timer() const;
  Duration patience() const;
  Duration probe_time() const;
  void forget_repeats();

  QpContext& context_;
  Ring<SendWqe>& ring_;
  WorkQueueSlots& slots_;
  std::unique_ptr<SelectiveRepeat> selective_;

  Psn una_;
  Psn next_psn_;         // at the cursor
  Psn high_psn_;         // never sent yet
  uint32_t cursor_ = 0;  // position in ring_
  uint32_t cursor_packet_ = 0;
  uint32_t ssn_ = 0;  // messages started
  uint32_t rd_atomic_in_flight_ = 0;
  uint32_t unrequested_ = 0;  // packets since one asked for an ACK
  uint32_t window_ = 0;
  RttSampler rtt_;

  Instant deadline_ = Instant::never();  // local ACK timeout
  uint8_t timeouts_ = 0;                 // since the peer last got further
  Instant rnr_until_ = Instant::never();
  bool rnr_wait_ = false;
  bool implied_nak_ = false;  // this gap was already asked for again
  bool heard_ = false;        // since the last retry, responses that were not the one waited for, up to:
  Psn heard_until_;
  uint8_t retry_left_ = 0;
  uint8_t rnr_left_ = 0;
  Cause local_error_ = Cause::kNone;  // at the cursor; reported when everything before it has completed

  bool credits_known_ = false;
  Psn credit_limit_;  // highest SSN that the peer has a receive for
};

}  // namespace uroce
