// Where somebody may listen to what an engine receives and sends.
#pragma once

#include <cstdint>
#include <span>

#include "engine/capture.h"
#include "uroce/time.h"

namespace uroce {

class FrameTap {
 public:
  void attach(Capture* capture) { capture_ = capture; }  // nullptr: off

  void on_received(std::span<const uint8_t> frame, Instant now) const {
    if (capture_ != nullptr) capture_->on_frame(Direction::kReceived, now, frame);
  }
  void on_sent(std::span<const uint8_t> frame, Instant now) const {
    if (capture_ != nullptr) capture_->on_frame(Direction::kSent, now, frame);
  }

 private:
  Capture* capture_ = nullptr;
};

}  // namespace uroce
