// The frames of a member: it builds what it sends in them, and its peers read it there.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"
#include "segment/layout.h"

namespace uroce::segment {

class FramePool {
 public:
  /// When fewer are free, every user of the pool takes few.
  static constexpr uint32_t kReserve = 128;

  /// `base` outlives the pool.
  explicit FramePool(BaseMemory& base) : base_(base) {
    for (uint32_t i = 0; i < kPoolFrames; i++) free_[i] = static_cast<uint16_t>(i);
  }

  uint32_t free() const { return count_; }
  /// Takes the next free frame; there must be one.
  uint16_t take() {
    ensure(count_ != 0, "whoever takes a frame knows that there is one");
    count_--;
    return free_[head_++ % kPoolFrames];
  }
  /// For a frame that no peer has read: it is most likely still in this core's cache, so it is taken next.
  void give_back(uint16_t frame) {
    note_back(frame);
    free_[--head_ % kPoolFrames] = frame;
  }
  /// For a frame that a peer has read: it is taken last. Writing to lines that another core has just read stalls on
  /// each of them, and less once they have left that core's cache.
  void give_back_read(uint16_t frame) {
    note_back(frame);
    free_[(head_ + count_ - 1) % kPoolFrames] = frame;
  }
  uint8_t* at(uint16_t frame) { return base_.frames[frame]; }

 private:
  void note_back(uint16_t frame) {
    ensure(count_ < kPoolFrames && frame < kPoolFrames, "a frame that comes back was taken");
    count_++;
  }

  BaseMemory& base_;
  uint32_t head_ = 0;  // position of the next one; goes round
  uint32_t count_ = kPoolFrames;
  std::array<uint16_t, kPoolFrames> free_{};
};

}  // namespace uroce::segment
