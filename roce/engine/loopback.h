// Frames from an endpoint to itself: programs do talk to their own address. No port would bring them back.
#pragma once

#include <cstring>
#include <memory>
#include <span>

#include "base/ring.h"
#include "engine/engine.h"

namespace uroce {

struct Engine::Loopback {
  static constexpr uint32_t kFrames = 256;

  explicit Loopback(uint32_t max_frame_bytes)
      : frame_bytes(max_frame_bytes), lengths(kFrames), storage(new uint8_t[size_t{kFrames} * max_frame_bytes]) {}

  uint8_t* slot(uint32_t position) { return &storage[size_t{lengths.slot(position)} * frame_bytes]; }
  bool full() const { return lengths.full(); }
  void push(const TxFrame& frame) {
    std::memcpy(slot(lengths.tail()), frame.data, frame.bytes);
    lengths.push(frame.bytes);
  }
  std::span<const uint8_t> front() { return {slot(lengths.head()), lengths.front()}; }
  void pop() { lengths.pop(); }

  const uint32_t frame_bytes;
  Ring<uint32_t> lengths;
  std::unique_ptr<uint8_t[]> storage;
};

}  // namespace uroce
