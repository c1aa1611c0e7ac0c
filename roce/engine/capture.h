// Sees every frame that the engine receives and sends. Production writes pcapng (roce/dpdk), tests keep a list.
#pragma once

#include <cstdint>
#include <span>

#include "uroce/time.h"

namespace uroce {

enum class Direction : uint8_t { kReceived, kSent };

class Capture {
 public:
  virtual ~Capture() = default;
  virtual void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) = 0;
  /// A frame that is sent, for captures that want to know its sender. `qpn`: the local queue pair; 0: the host.
  virtual void on_sent(uint32_t /*qpn*/, Instant now, std::span<const uint8_t> frame) {
    on_frame(Direction::kSent, now, frame);
  }
};

}  // namespace uroce
