// The port that the player's engine receives from and sends into, with its other end, which the replay holds. It is in
// memory, or a DPDK port.
#pragma once

#include <deque>
#include <span>

#include "replay/recording.h"
#include "uroce/memory_port.h"

namespace uroce::replay {

/// The longest frame that such a port is given to send.
inline constexpr uint32_t kFrameBytes = 4096 + 160;

class PlayerPort {
 public:
  virtual ~PlayerPort() = default;
  virtual Port& port() = 0;
  /// Gives the port its next frame to receive. It can be received at once, and nothing else can.
  virtual void deliver(std::span<const uint8_t> frame) = 0;
  /// Appends what was sent into the port since the last call, in order. To be called behind each of the engine's turns.
  virtual void collect(std::deque<Bytes>& sent) = 0;
};

class MemoryPlayerPort final : public PlayerPort {
 public:
  Port& port() override { return port_; }
  void deliver(std::span<const uint8_t> frame) override;
  void collect(std::deque<Bytes>& sent) override;

 private:
  /// No packet ends behind it: the longest IP packet behind an Ethernet header with tags.
  static constexpr uint32_t kLongestRecorded = 65535 + 32;
  MemoryPort port_{256, kLongestRecorded};
};

}  // namespace uroce::replay
