// Frames from an endpoint to itself: programs do talk to their own address. No port would bring them back.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/ring.h"
#include "uroce/port.h"

namespace uroce {

/// A queue of frames that has no memory before it is opened: few programs need it.
class Loopback {
 public:
  static constexpr uint32_t kFrames = 256;

  /// `frame_bytes`: of the longest frame.
  explicit Loopback(uint32_t frame_bytes) : frame_bytes_(frame_bytes) {}

  /// To be called once there is a path to one of our own addresses.
  void open() {
    if (!frames_) frames_ = std::make_unique<Frames>(frame_bytes_);
  }
  bool is_open() const { return frames_ != nullptr; }
  bool full() const { return frames_ && frames_->lengths.full(); }
  uint32_t size() const { return frames_ ? frames_->lengths.size() : 0; }

  /// It must be open, and not full.
  void push(const TxFrame& frame) {
    ensure(frames_ != nullptr, "frames to ourselves have a path to ourselves");
    ensure(frame.bytes <= frame_bytes_, "a frame fits the loopback");
    std::memcpy(slot(frames_->lengths.tail()), frame.data, frame.bytes);
    frames_->lengths.push(frame.bytes);
  }
  /// The oldest; there must be one. Valid until `pop`.
  std::span<const uint8_t> front() { return {slot(frames_->lengths.head()), frames_->lengths.front()}; }
  void pop() { frames_->lengths.pop(); }

 private:
  struct Frames {
    explicit Frames(uint32_t frame_bytes) : lengths(kFrames), storage(new uint8_t[size_t{kFrames} * frame_bytes]) {}
    Ring<uint32_t> lengths;
    std::unique_ptr<uint8_t[]> storage;
  };
  uint8_t* slot(uint32_t position) { return &frames_->storage[size_t{frames_->lengths.slot(position)} * frame_bytes_]; }

  const uint32_t frame_bytes_;
  std::unique_ptr<Frames> frames_;
};

}  // namespace uroce
