// One end of the cable that is plugged into a port of the card model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mqnic::card {

/// Carries frames without FCS, in order. Used by one thread at a time, the one that runs the card.
class Wire {
 public:
  virtual ~Wire() = default;

  /// True when there is a peer at the other end. Called often, so it must be cheap.
  virtual bool connected() = 0;

  /// Which end of the cable this is, 0 or 1, if the two can be told apart: a driver gives them different MAC addresses.
  virtual unsigned end() const { return 0; }

  /// The card reports when its port starts and stops receiving. For wires that play recorded frames; others ignore it.
  virtual void set_receiving(bool receiving) { (void)receiving; }

  /// Takes a message about what went wrong since the last call, for a log; empty when nothing did.
  virtual std::string take_message() { return {}; }

  /// Room for one frame of up to `bytes` bytes, to be filled and then passed on with `commit`. When it is empty, the
  /// wire takes no more now, and the card keeps its packet. Without a peer, frames are taken and lost.
  virtual std::span<uint8_t> reserve(size_t bytes) = 0;
  virtual void commit(size_t bytes) = 0;

  /// The oldest frame that has arrived, which is valid until `pop`; empty when there is none.
  virtual std::span<const uint8_t> front() = 0;
  virtual void pop() = 0;
  /// `pop`, and then `front`.
  virtual std::span<const uint8_t> next() {
    pop();
    return front();
  }

  /// Called once at the end of every run of the card: what was committed becomes visible to the peer, and what was
  /// popped becomes free. `now_ns` is the card's time, for wires that depend on time.
  virtual void flush(uint64_t now_ns) = 0;
};

}  // namespace mqnic::card
