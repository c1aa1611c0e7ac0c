// When a requester asks again, and how often: the local ACK timer, the waits that RNR NAKs ask for, and what is left of
// the budgets for both.
//
// The timer knows no packets and no queue. It is told what happened and when, and returns what to do; the requester
// does the rest. Both budgets are full again whenever the peer gets further.
#pragma once

#include <cstdint>
#include <optional>

#include "uroce/psn.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"

namespace uroce {

class RetryTimer {
 public:
  enum class State : uint8_t {
    kIdle,           // nothing is waited for
    kAwaitsAnswer,   // the local ACK timer runs
    kAwaitsReceive,  // an RNR NAK said when to try again; until then nothing new is sent
  };
  enum class Expired : uint8_t {
    kNothing,
    kAnswerWait,   // the peer is silent
    kReceiveWait,  // the peer may have a receive by now
  };
  enum class [[nodiscard]] Budget : uint8_t{kLeft, kExhausted};

  /// `attributes` are those of the QP, which may change in SQD. They outlive the timer.
  explicit RetryTimer(const QpAttributes& attributes) : attributes_(attributes) {}

  /// A new connection: full budgets, idle.
  void start();
  /// Makes the timer idle, and forgets that the peer was silent. What is left of the budgets stays.
  void reset();
  /// Makes the timer idle. This also ends a wait for a receive.
  void stop();

  /// A packet that wants an answer left.
  void on_sent(Instant now) {
    if (state_ == State::kIdle) await_answer(now);
  }
  /// The peer got further. `more` says whether there is more to wait for.
  void on_progress(bool more, Instant now);
  /// A response came that is not the one waited for. Responses to what was asked before a loss may go on for longer
  /// than the ACK timer. A peer that sends them is not gone: the timer starts again, but only for PSNs beyond those
  /// heard since the last retransmission, so that a peer cannot put off the timeout for ever.
  void on_other_response(Psn psn, Instant now);
  /// What was sent is going to be sent again.
  void on_rewind() { heard_.reset(); }

  /// Says whether a wait has come to its end, and which. If so, the state is kIdle.
  Expired expire(Instant now);
  /// The silence counts as a timeout: the next wait is longer.
  void lengthen();
  /// Takes one retry from the budget. The timer is idle until the retransmission leaves, because a full port does not
  /// mean that the peer is gone.
  Budget spend_retry();
  /// An RNR NAK came, which asks for `wait`. `further`: with it the peer got further. When it did not, and a wait is
  /// under way already, the NAK is for another copy of the same packet: the wait may become longer, but no retry is
  /// spent.
  Budget await_receive(Duration wait, bool further, Instant now);

  State state() const { return state_; }
  bool awaits_receive() const { return state_ == State::kAwaitsReceive; }
  bool timed_out() const { return timeouts_ != 0; }  // and the peer has not got further since then
  uint8_t retries_left() const { return retries_left_; }
  Instant next_timeout() const { return until_; }

 private:
  void await_answer(Instant now);
  Duration answer_time() const;

  const QpAttributes& attributes_;
  State state_ = State::kIdle;
  Instant until_ = Instant::never();
  uint8_t timeouts_ = 0;  // since the peer last got further; two at most
  uint8_t retries_left_ = 0;
  uint8_t rnr_retries_left_ = 0;
  std::optional<Psn> heard_;  // the furthest response that has put off the end of the wait
};

}  // namespace uroce
