// One number for everything that happened on every cable. It is equal for equal runs, whatever compiler built the
// program.
//
// The beginning and the end of a frame are enough, because the iCRC at its end covers what lies between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "sim/link.h"

namespace uroce::sim {

class TraceHash final : public LinkTap {
 public:
  void on_arrival(uint32_t link, Instant now, std::span<const uint8_t> frame) override {
    on_passing(link, now, frame);
    mix_bytes(frame.last(std::min<size_t>(frame.size() - std::min(frame.size(), kHeadBytes), kTailBytes)));
  }
  /// Takes only the beginning of the frame, which is all that a switch looks at. For cables between switches; the rest
  /// is covered on the last cable of the frame's way.
  void on_passing(uint32_t link, Instant now, std::span<const uint8_t> frame) {
    mix(static_cast<uint64_t>(now.ns));
    mix(uint64_t{link} << 32 | frame.size());
    mix_bytes(frame.first(std::min(frame.size(), kHeadBytes)));
    frames_++;
  }
  uint64_t value() const { return hash_; }
  uint64_t frames() const { return frames_; }

 private:
  static constexpr size_t kHeadBytes = 72;
  static constexpr size_t kTailBytes = 8;

  void mix(uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 29;
  }
  void mix_bytes(std::span<const uint8_t> bytes) {
    for (size_t at = 0; at < bytes.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
      mix(word);
    }
  }

  uint64_t hash_ = 0x243F6A8885A308D3u;
  uint64_t frames_ = 0;
};

}  // namespace uroce::sim
