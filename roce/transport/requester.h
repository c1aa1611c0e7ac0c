// The reliable requester: turns the send queue into request packets, and answers into completions.
//
// It coordinates parts that each have one task and a test of their own:
//   RequestWindow    its position in the send queue, and the sequence numbers that belong to it
//   SendCompleter    the head of the queue: work requests end there, in order
//   RetryTimer       when to ask again, and how often
//   FlightLimit      how many packets may be in flight, and which of them ask for an answer
//   PeerCredits      how many messages the peer has receives for
//   SelectiveRepeat  towards a peer that knows it: what is lost is sent again beside the cursor
//   DirectRequests   towards a process of this machine that allows it: what is copied without frames
//
// Retransmission is nothing but moving the cursor back to the oldest packet without an answer (go-back-N): packets are
// made again from the program's memory, which belongs to the transport until the completion. Timeouts and NAKs mean
// go-back-N with selective repeat, too.
//
// requester.cc sends; requester_response.cc takes the answers; selective_requester.cc has what is used only between
// peers that know selective repeat.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "packet/packet.h"
#include "transport/direct_requests.h"
#include "transport/flight_limit.h"
#include "transport/outcome.h"
#include "transport/peer_credits.h"
#include "transport/qp_context.h"
#include "transport/request_window.h"
#include "transport/retry_timer.h"
#include "transport/rtt_sampler.h"
#include "transport/selective_repeat.h"
#include "transport/send_completer.h"
#include "transport/send_queue.h"
#include "uroce/port.h"
#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

class Requester {
 public:
  Requester(QpContext& context, SendQueue& queue);

  /// The QP goes to RTS for the first time since RESET: PSNs start at attributes.sq_psn.
  void start();
  /// Forgets sequence numbers and timers. The queue must be empty.
  void reset();

  bool wants_transmit() const;
  PollResult poll_transmit(TxFrame& frame, Instant now);
  Outcome on_response(const PacketView& packet, Instant now);
  Outcome on_timeout(Instant now);
  Instant next_timeout() const {
    if (selective_ == nullptr || timer_.awaits_receive()) return timer_.next_timeout();
    return std::min(timer_.next_timeout(), selective_->next_timeout());
  }
  /// The peer's MAC address has become known. Packets sent before were lost; they are sent again, which does not count
  /// as a retry.
  void on_path_resolved();
  /// Completes everything that is queued as flushed, in order.
  void flush(Instant now);
  /// True when no message is under way (for SQD).
  bool drained() const;

  const RequestWindow& window() const { return window_; }
  const RetryTimer& retry_timer() const { return timer_; }
  /// nullptr when nobody asks: without congestion control, and with selective repeat, which measures by itself.
  const RttSampler* rtt() const { return rtt_.get(); }
  /// nullptr when the QP knows only go-back-N.
  const SelectiveRepeat* selective_repeat() const { return selective_.get(); }

 private:
  // requester.cc
  bool may_send() const;  // the request at the cursor, which must be there
  bool lacks_credit(const SendWqe& wqe) const;
  PollResult send_next(SendWqe& wqe, TxFrame& frame, Instant now);
  PollResult give_up(Cause cause, Instant now);
  Outcome end_here(SendWqe& wqe, Instant now);
  void rewind();
  void start_over();

  // requester_response.cc
  /// How far an acknowledgement reached.
  enum class [[nodiscard]] Reached : uint8_t{
      kAll,
      kBlocked,  // a READ or atomic before it has no response yet: the response was lost
      kFailed,   // the QP goes to error
  };
  Outcome on_acknowledge(const PacketView& packet, Instant now);
  Outcome on_ack(Psn psn, const Aeth& aeth, Instant now);
  Outcome on_nak(NakCode code, Psn psn, Instant now);
  Outcome on_rnr_nak(uint8_t timer, Psn psn, Instant now);
  Outcome on_data_response(const PacketView& packet, Instant now);
  Reached reach_response(const PacketView& packet, Instant now);
  Reached acknowledge(Psn upto, Instant now);
  Outcome implied_nak(Instant now);
  Outcome retry(Cause when_exhausted, Instant now);
  void progress(Instant now);

  // selective_requester.cc
  Outcome on_selective_ack(const PacketView& packet, Instant now);
  void apply(const RequestRecovery::News& news, Instant now);
  void hold_response(const PacketView& packet, Instant now);
  Outcome take_held(Instant now);
  bool wants_beside_cursor() const;
  bool poll_beside_cursor(TxFrame& frame, Instant now);
  bool send_again(const RequestRecovery::Resend& resend, TxFrame& frame, Instant now);
  bool ask_again(const ResponseRecovery::Ask& ask, TxFrame& frame, Instant now);

  QpContext& context_;
  const Ring<SendWqe>& ring_;
  RequestWindow window_;
  SendCompleter completer_;
  RetryTimer timer_;
  FlightLimit limit_;
  PeerCredits credits_;
  std::unique_ptr<RttSampler> rtt_;
  std::unique_ptr<SelectiveRepeat> selective_;
  std::unique_ptr<DirectRequests> direct_;

  uint32_t ssn_ = 0;                  // messages started
  uint32_t rd_atomic_in_flight_ = 0;  // READs and atomics in flight
  bool implied_nak_ = false;          // this gap was already asked for again
};

}  // namespace uroce
