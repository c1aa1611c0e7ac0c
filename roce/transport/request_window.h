// A requester's position in its send queue, and the sequence numbers that belong to it.
//
// There are three numbers: `una`, the oldest PSN without an answer, which belongs to the work request at the head of
// the queue; `next`, the PSN of the packet at the cursor; and `high`, the first PSN that was never sent. Retransmission
// is nothing but moving the cursor back to una. While packets are sent again, una may overtake the cursor; then the
// cursor is moved up to una.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/ring.h"
#include "transport/send_queue.h"
#include "uroce/psn.h"

namespace uroce {

class RequestWindow {
 public:
  /// `ring` is that of the send queue, and outlives the window. Posts are appended to it elsewhere; heads are taken off
  /// here.
  explicit RequestWindow(Ring<SendWqe>& ring) : ring_(ring) {}

  /// A new connection, whose first packet has the number `first`.
  void start(Psn first);
  /// Nothing is under way any more: no answer is expected to what was sent, and the numbers go on at the cursor.
  void reset();
  /// The same, but the numbers go on after everything that was ever sent. The queue must be empty.
  void abandon();
  /// Moves the cursor back to una.
  void rewind();

  Psn una() const { return una_; }
  Psn next() const { return next_; }
  Psn high() const { return high_; }
  bool all_answered() const { return una_ == high_; }
  /// True for a packet that was sent and has no answer yet.
  bool outstanding(Psn psn) const { return distance(una_, psn) >= 0 && psn.before(high_); }
  uint32_t packets_in_flight() const { return static_cast<uint32_t>(distance(una_, high_)); }
  /// PSNs from una to the cursor; negative when una has overtaken the cursor.
  int32_t distance_to_cursor() const { return distance(una_, next_); }
  /// Everything before `upto` has its answer.
  void on_answered(Psn upto) {
    ensure(!upto.before(una_) && !high_.before(upto), "what is answered was sent and had no answer");
    una_ = upto;
  }

  // The cursor.
  bool at_end() const { return cursor_ == ring_.tail(); }
  bool at_head() const { return cursor_ == ring_.head(); }
  uint32_t cursor() const { return cursor_; }  // position in the ring
  uint32_t packet() const { return packet_; }  // the packet of the work request there
  SendWqe& wqe() { return ring_.at(cursor_); }
  const SendWqe& wqe() const { return ring_.at(cursor_); }
  /// Moves the cursor past a work request that sends nothing.
  void skip() {
    ensure(!at_end(), "there is a work request at the cursor");
    cursor_++;
  }
  /// Moves the cursor past the packet that was sent, or past a READ request and the PSNs of its responses.
  void advance();
  /// Takes the work request at the head, which has ended, off the queue.
  void pop_head();

 private:
  Ring<SendWqe>& ring_;
  Psn una_;
  Psn next_;
  Psn high_;
  uint32_t cursor_ = 0;
  uint32_t packet_ = 0;
};

// Called for every packet, hence inline.

inline void RequestWindow::advance() {
  ensure(!at_end(), "there is a work request at the cursor");
  const SendWqe& at = wqe();
  const uint32_t psns = at.is_read() ? at.packets - packet_ : 1;
  next_ += psns;
  packet_ += psns;
  ensure(packet_ <= at.packets, "no packet behind the last of its message");
  if (packet_ == at.packets) {
    cursor_++;
    packet_ = 0;
  }
  if (high_.before(next_)) high_ = next_;
}

inline void RequestWindow::pop_head() {
  const bool here = at_head();
  ring_.pop();
  if (!here) return;
  cursor_ = ring_.head();
  packet_ = 0;
}

}  // namespace uroce
