// Frames that wait for their instant. A polled loop keeps in it those that `Impairments` delay.
//
// Frames with the same instant leave in the order in which they came. Nothing is allocated once the line has reached
// its greatest length.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "fabric/frame.h"
#include "uroce/time.h"

namespace uroce::fabric {

class DelayLine {
 public:
  explicit DelayLine(size_t max_frames = SIZE_MAX) : max_frames_(max_frames) {}

  /// So that nothing is allocated any more for this many frames.
  void reserve(size_t frames) { heap_.reserve(frames); }

  /// False when the line is full; the frame then still belongs to the caller.
  bool push(const FabricFrame& frame, Instant when) {
    ensure(static_cast<bool>(frame), "a frame that waits has bytes");
    if (heap_.size() >= max_frames_) return false;
    heap_.push_back({when, order_++, frame});
    std::push_heap(heap_.begin(), heap_.end());
    return true;
  }
  /// The next frame whose instant has come; one without data when there is none.
  FabricFrame pop(Instant now) {
    if (heap_.empty() || now < heap_.front().when) return {};
    std::pop_heap(heap_.begin(), heap_.end());
    const Waiting first = heap_.back();
    heap_.pop_back();
    ensure(heap_.empty() || first.when <= heap_.front().when, "frames leave in the order of their instants");
    return first.frame;
  }
  Instant next() const { return heap_.empty() ? Instant::never() : heap_.front().when; }
  size_t size() const { return heap_.size(); }

 private:
  struct Waiting {
    Instant when;
    uint64_t order;
    FabricFrame frame;
    bool operator<(const Waiting& other) const {
      return when != other.when ? when > other.when : order > other.order;  // a heap's front is its largest
    }
  };
  std::vector<Waiting> heap_;
  size_t max_frames_;
  uint64_t order_ = 0;
};

}  // namespace uroce::fabric
