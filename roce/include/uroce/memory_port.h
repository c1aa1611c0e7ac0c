// A port whose frames stay in memory: for tests, and for programs that move packets by hand.
//
//   while (auto frame = a.take()) b.deliver(*frame);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "uroce/export.h"
#include "uroce/port.h"

namespace uroce {

class UROCE_API MemoryPort final : public Port {
 public:
  /// Makes room for `frames` frames of up to `frame_bytes` in each direction. All memory is allocated here.
  explicit MemoryPort(uint32_t frames = 256, uint32_t frame_bytes = 4096 + 128);

  /// Takes the oldest frame that the engine has sent, which is valid until the next call. Nothing when there is none.
  std::optional<std::span<const uint8_t>> take();
  /// Copies a frame to where the engine will receive it. False when there is no room or the frame is too long.
  bool deliver(std::span<const uint8_t> frame);
  uint32_t waiting() const { return to_engine_.size(); }  // delivered, and not yet received
  uint32_t sent() const { return from_engine_.size(); }   // sent, and not yet taken

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t rx_backlog() override { return to_engine_.size(); }
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;

 private:
  /// A queue of frames. Frames are numbered for ever; a number modulo the size is the slot.
  struct Queue {
    Queue(uint32_t frames, uint32_t frame_bytes) : memory(size_t{frames} * frame_bytes), bytes(frames) {}
    uint32_t size() const { return static_cast<uint32_t>(tail - head); }
    std::vector<uint8_t> memory;
    std::vector<uint32_t> bytes;
    uint64_t head = 0;      // the oldest
    uint64_t released = 0;  // slots before this one may be written again
    uint64_t tail = 0;
  };
  uint8_t* slot(Queue& queue, uint64_t number) const;
  bool full(const Queue& queue) const { return queue.tail - queue.released == frames_; }

  uint32_t frames_;
  uint32_t frame_bytes_;
  Queue from_engine_;
  Queue to_engine_;
};

}  // namespace uroce
