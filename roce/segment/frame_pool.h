// The frames of a member: it builds what it sends in them, and its peers read it there.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"
#include "segment/layout.h"

namespace uroce::segment {

class FramePool {
 public:
  /// When fewer are free, everybody takes few.
  static constexpr uint32_t kReserve = 128;

  /// `base` outlives the pool.
  explicit FramePool(BaseMemory& base) : base_(base) {
    for (uint32_t i = 0; i < kPoolFrames; i++) free_[i] = static_cast<uint16_t>(kPoolFrames - 1 - i);
  }

  uint32_t free() const { return count_; }
  /// The one that came back last, since it is most likely in the cache still. There must be one.
  uint16_t take() {
    ensure(count_ != 0, "whoever takes a frame knows that there is one");
    return free_[--count_];
  }
  void give_back(uint16_t frame) {
    ensure(count_ < kPoolFrames && frame < kPoolFrames, "a frame that comes back was taken");
    free_[count_++] = frame;
  }
  uint8_t* at(uint16_t frame) { return base_.frames[frame]; }

 private:
  BaseMemory& base_;
  uint32_t count_ = kPoolFrames;
  std::array<uint16_t, kPoolFrames> free_{};
};

}  // namespace uroce::segment
