// How many packets may be in flight without an answer, and which of them ask for one.
//
// A loss halves the number, because the path's capacity is not known; each sign of progress adds one. Congestion
// control, where there is any, has a cap of its own. A flow that is stopped by either limit must have asked for an
// answer, or it would stand still until a timeout: so the packet that closes the window always asks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace uroce {

class FlightLimit {
 public:
  /// `window` is the most packets in flight; at least every `ack_every`-th packet asks for an answer.
  FlightLimit(uint32_t window, uint32_t ack_every) : window_(window), ack_every_(ack_every) {}

  /// A new connection, which may use the whole window.
  void start() {
    allowed_ = window_;
    unrequested_ = 0;
  }
  /// What was sent is going to be sent again, so which of those packets asked for an answer does not matter any more.
  void on_rewind() { unrequested_ = 0; }
  void on_loss();
  void on_progress();

  /// May another packet go when `open` are in flight? `cap` is the limit of congestion control.
  bool allows(uint32_t open, uint32_t cap) const;
  /// Whether the packet that is about to leave has to ask for an answer; counts the packet. `open` are in flight
  /// without it. With `must` it asks in any case.
  bool asks(uint32_t open, uint32_t cap, bool must);
  /// True when the newest packet asked for an answer, which will then stand for all that was sent.
  bool newest_asked() const { return unrequested_ == 0; }

 private:
  uint32_t window_;
  uint32_t ack_every_;
  uint32_t allowed_ = 0;
  uint32_t unrequested_ = 0;  // packets since one asked for an answer
};

// Called for every packet, hence inline.

inline void FlightLimit::on_progress() { allowed_ = std::min(allowed_ + 1, window_); }

inline bool FlightLimit::allows(uint32_t open, uint32_t cap) const {
  if (open >= allowed_) return false;
  // When the cap shrinks under packets that asked for no ACK, one more may go to ask for it.
  return open < cap || unrequested_ != 0;
}

inline bool FlightLimit::asks(uint32_t open, uint32_t cap, bool must) {
  const uint32_t often = std::min(ack_every_, std::min(allowed_, cap) / 2);
  if (must || open + 1 >= cap || ++unrequested_ >= often) {
    unrequested_ = 0;
    return true;
  }
  return false;
}

}  // namespace uroce
