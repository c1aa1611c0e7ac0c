// A port whose frames stay in memory: for tests, and for programs that move packets by hand.
//
//   while (auto frame = a.take()) b.deliver(*frame);
//
// Or, for two engines back to back whose frames are not looked at: `MemoryPort::join(a, b)`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "uroce/export.h"
#include "uroce/port.h"

namespace uroce {

class UROCE_API MemoryPort final : public Port {
 public:
  /// Makes room for `frames` frames of up to `frame_bytes` in each direction. All memory is allocated here.
  explicit MemoryPort(uint32_t frames = 256, uint32_t frame_bytes = 4096 + 128);
  ~MemoryPort() override;
  MemoryPort(const MemoryPort&) = delete;
  MemoryPort& operator=(const MemoryPort&) = delete;

  /// From now on each port receives what the other one sends, in place, without a copy. One thread drives both engines;
  /// frames that either port holds are dropped.
  static void join(MemoryPort& a, MemoryPort& b);

  /// Takes the oldest frame that the engine has sent, which is valid until the next call. Nothing when there is none.
  std::optional<std::span<const uint8_t>> take();
  /// Forgets all frames that the engine has sent; returns how many.
  uint32_t discard();
  /// Copies a frame to where the engine will receive it. False when there is no room or the frame is too long.
  bool deliver(std::span<const uint8_t> frame);
  uint32_t waiting() const;  // delivered, and not yet received
  uint32_t sent() const;     // sent, and not yet taken

  /// A port that is congested takes nothing from the engine, whatever room it has.
  void set_congested(bool congested) { congested_ = congested; }
  bool congested() const { return congested_; }
  using Port::congested;

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t rx_backlog() override { return waiting(); }
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;

 private:
  struct Queue;

  std::shared_ptr<Queue> from_engine_;
  std::shared_ptr<Queue> to_engine_;
  bool congested_ = false;
};

}  // namespace uroce
