// What a responder owes its peer beside READ responses and atomic results: nothing, an ACK, a delayed ACK, or a NAK.
//
// The contents of an ACK or a NAK are made when it leaves, so it stands for everything received until then, and one
// state is all that has to be kept. An ACK is delayed for a moment when the program is likely to answer the message
// with one of its own, because it did so lately: then the ACK leaves behind that message in the same burst
// (doc/adr/0006-delayed-acks.md). The delay ends early with a READ, an atomic, a second message, or anything that needs
// an answer at once.
//
// The acknowledger knows no packets. It is told what happened, and says what is owed.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "uroce/time.h"

namespace uroce {

class Acknowledger {
 public:
  enum class State : uint8_t {
    kNothing,
    kAck,
    kDelayedAck,  // waits for a message of the program to follow, or for the end of the delay
    kNak,         // acknowledges everything before it too
  };

  /// `delay` is how long an ACK may wait; with 0 no ACK waits.
  explicit Acknowledger(Duration delay) : delay_(delay) {}

  /// A new connection: nothing is owed, and nothing is known of how the program answers.
  void reset();
  /// Nothing is owed any more.
  void silence() { on(Event::kSettled); }

  /// A message, or part of one, asks for an ACK. `alone`: no response waits to be sent before it.
  void on_message(bool alone, Instant now);
  /// An ACK is owed at once.
  void require_ack() { on(Event::kAckNow); }
  void require_nak(uint8_t syndrome);
  /// The NAK that waits to be sent is no longer true.
  void withdraw_nak() { on(Event::kNakWithdrawn); }
  /// A delayed ACK leaves with the next frames.
  void end_delay() { on(Event::kDelayEnds); }
  /// A READ response or atomic result left, which acknowledges everything received.
  void on_response() { on(Event::kResponse); }
  /// The ACK or NAK left.
  void on_sent() {
    ensure(due(), "an ACK or a NAK that left was owed");
    on(Event::kSettled);
  }

  /// The program posted a send. When that answers a message, ACKs will wait for such posts from now on.
  void on_send_posted() {
    if (message_unanswered_) on_answered();
  }
  /// To be called when `next_timeout` has come. If the delay is over, the program has not answered, and the next ACK
  /// does not wait.
  void on_timeout(Instant now);
  Instant next_timeout() const { return delayed() ? until_ : Instant::never(); }

  State state() const { return state_; }
  bool delayed() const { return state_ == State::kDelayedAck; }
  /// An ACK or a NAK is to be sent now.
  bool due() const { return state_ == State::kAck || state_ == State::kNak; }
  uint8_t nak_syndrome() const { return nak_syndrome_; }

 private:
  enum class Event : uint8_t { kAckNow, kAckLater, kDelayEnds, kNak, kNakWithdrawn, kResponse, kSettled };

  static State after(State state, Event event);
  void on_answered();
  void on(Event event) { state_ = after(state_, event); }

  Duration delay_;
  State state_ = State::kNothing;
  uint8_t nak_syndrome_ = 0;
  Instant until_ = Instant::never();
  bool message_unanswered_ = false;
  uint8_t answers_ = 0;  // how often lately a post answered a message: 0..3
};

}  // namespace uroce
