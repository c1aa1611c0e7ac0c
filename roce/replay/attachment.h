// What joins the player to the outside: its engine receives from the attachment's port and sends into it. The port is
// in memory, or a DPDK port whose other end this program holds.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "replay/recording.h"
#include "uroce/port.h"

namespace uroce::replay {

/// The longest frame that such a port is given to send.
inline constexpr uint32_t kFrameBytes = 4096 + 160;

class Attachment {
 public:
  virtual ~Attachment() = default;
  virtual Port& port() = 0;
  /// Gives the port its next frame to receive. It can be received at once, and nothing else can.
  virtual void deliver(std::span<const uint8_t> frame) = 0;
  /// Appends what was sent into the port since the last call, in order.
  virtual void collect(std::deque<Bytes>& sent) = 0;
};

class MemoryAttachment final : public Attachment, private Port {
 public:
  MemoryAttachment() : buffers_(kMaxBurst, Bytes(kFrameBytes)) {}
  Port& port() override { return *this; }
  void deliver(std::span<const uint8_t> frame) override { delivered_.emplace_back(frame.begin(), frame.end()); }
  void collect(std::deque<Bytes>& sent) override;

 private:
  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;

  std::deque<Bytes> delivered_;
  std::deque<Bytes> sent_;
  std::vector<Bytes> buffers_;
};

}  // namespace uroce::replay
