// The place where a capture listens to what an engine receives and sends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/capture.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

class FrameTap {
 public:
  void attach(Capture* capture) { capture_ = capture; }  // nullptr: off

  void on_received(const RxFrame& frame, Instant now) {
    if (capture_ != nullptr) capture_->on_frame(Direction::kReceived, now, as_read(frame));
  }
  /// `qpn`: of the QP that sends it; 0: the host's own.
  void on_sent(std::span<const uint8_t> frame, uint32_t qpn, Instant now) const {
    if (capture_ != nullptr) capture_->on_sent(qpn, now, frame);
  }

 private:
  /// The frame with the headers that the engine uses. For captures only: allocates when a frame is the longest so far.
  std::span<const uint8_t> as_read(const RxFrame& frame) {
    if (frame.headers == nullptr) return {frame.data, frame.bytes};
    copy_.assign(frame.data, frame.data + frame.bytes);
    std::copy_n(frame.headers, std::min(frame.bytes, RxFrame::kHeaderBytes), copy_.begin());
    return copy_;
  }

  Capture* capture_ = nullptr;
  std::vector<uint8_t> copy_;
};

}  // namespace uroce
