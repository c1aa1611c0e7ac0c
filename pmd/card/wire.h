// One end of the cable that is plugged into a port of the card model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mqnic::card {

/// Frames without FCS, in order. Used by one thread at a time: whoever runs the card.
class Wire {
 public:
  virtual ~Wire() = default;

  /// Somebody is at the other end. Asked often: must be cheap.
  virtual bool connected() = 0;

  /// Which end of the cable this is, 0 or 1, when the two can tell: a driver gives them different MAC addresses.
  virtual unsigned end() const { return 0; }

  /// The card says when its port starts and stops to receive. For wires that play something: a real peer does not care.
  virtual void set_receiving(bool receiving) { (void)receiving; }

  /// What went wrong since the last call, in words, for a log. Empty: nothing.
  virtual std::string take_message() { return {}; }

  /// Room for one frame of up to `bytes` bytes, to be filled and given back with `commit`. Empty: the wire takes no
  /// more now, and the card keeps its packet. Without anybody at the other end frames are taken and lost.
  virtual std::span<uint8_t> reserve(size_t bytes) = 0;
  virtual void commit(size_t bytes) = 0;

  /// The oldest frame that has arrived, readable until `pop`. Empty: there is none.
  virtual std::span<const uint8_t> front() = 0;
  virtual void pop() = 0;

  /// Once at the end of every run of the card: what was committed becomes visible to the other end, what was popped
  /// becomes free. `now_ns` is the card's time, for wires that have time.
  virtual void flush(uint64_t now_ns) = 0;
};

}  // namespace mqnic::card
