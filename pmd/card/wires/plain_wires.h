// The two wires without a peer.
#pragma once

#include <vector>

#include "pmd/card/wire.h"
#include "pmd/card/wires/frame_ring.h"

namespace mqnic::card {

/// Nothing is plugged in: frames are lost.
class NoWire final : public Wire {
 public:
  bool connected() override { return false; }
  std::span<uint8_t> reserve(size_t bytes) override;
  void commit(size_t) override {}
  std::span<const uint8_t> front() override { return {}; }
  void pop() override {}
  void flush(uint64_t) override {}

 private:
  std::vector<uint8_t> scrap_ = std::vector<uint8_t>(kFrameBytesMax);
};

/// A plug that joins TX to RX. What was sent arrives after the next flush.
class LoopWire final : public Wire {
 public:
  bool connected() override { return true; }
  std::span<uint8_t> reserve(size_t bytes) override { return ring_.reserve(bytes, tail_); }
  void commit(size_t bytes) override { ring_.commit(bytes); }
  std::span<const uint8_t> front() override { return reader_.front(visible_); }
  void pop() override { reader_.pop(); }
  void flush(uint64_t) override {
    visible_ = ring_.head();
    tail_ = reader_.tail();
  }

 private:
  static constexpr uint32_t kRingBytes = 1u << 20;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kRingBytes);
  FrameWriter ring_{memory_.data(), kRingBytes};
  FrameReader reader_{memory_.data(), kRingBytes};
  uint32_t visible_ = 0;
  uint32_t tail_ = 0;
};

}  // namespace mqnic::card
