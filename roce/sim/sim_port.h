// The engine's port in the simulator: a queue of received frames, and a link (or nothing) to send to.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/port.h"
#include "sim/frame.h"

namespace uroce::sim {

/// Told when a frame has arrived.
class Waker {
 public:
  virtual ~Waker() = default;
  virtual void wake() = 0;
};

class SimPort final : public Port, public FrameSink {
 public:
  SimPort(uint32_t max_frame_bytes, Waker& waker);

  void connect(FrameSink& to) { to_ = &to; }

  // Port
  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;

  // FrameSink
  void deliver(Frame&& frame) override;
  bool has_received() const { return !received_.empty(); }

  /// At most this many buffers a burst from now on: 0 is a port that takes nothing.
  void set_tx_room(uint32_t frames) { tx_room_ = frames; }

 private:
  Waker& waker_;
  FrameSink* to_ = nullptr;
  uint32_t max_frame_bytes_;
  uint32_t tx_room_ = kMaxBurst;
  std::deque<Frame> received_;
  uint32_t lent_ = 0;  // frames at the front of received_ that the engine looks at
  std::array<std::vector<uint8_t>, kMaxBurst> tx_buffers_;
};

}  // namespace uroce::sim
