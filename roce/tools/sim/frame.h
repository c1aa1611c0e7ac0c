// A frame on its way, and the interface of objects that take frames.
//
// Bytes lie in buffers that are used again and again: after a run has warmed up, no frame allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/check.h"

namespace uroce::sim {

class Frame {
 public:
  Frame() = default;
  /// A frame of that many zero bytes.
  explicit Frame(size_t bytes);
  explicit Frame(std::span<const uint8_t> bytes);
  Frame(const Frame& other) : Frame(std::span<const uint8_t>(other.data(), other.size())) {}
  Frame(Frame&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Frame& operator=(Frame other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Frame() {
    if (block_ != nullptr) give_back(block_);
  }

  /// A frame with room for that many bytes, undefined contents and a size of 0, to be filled by the caller.
  static Frame with_capacity(size_t bytes);
  /// `bytes` must not exceed the capacity.
  void set_size(size_t bytes) {
    ensure(block_ != nullptr && bytes <= kCapacities[block_->size_class], "a frame fits its buffer");
    block_->bytes = static_cast<uint32_t>(bytes);
  }

  uint8_t* data() { return block_ != nullptr ? block_->data() : nullptr; }
  const uint8_t* data() const { return block_ != nullptr ? block_->data() : nullptr; }
  size_t size() const { return block_ != nullptr ? block_->bytes : 0; }
  bool empty() const { return size() == 0; }
  uint8_t* begin() { return data(); }
  uint8_t* end() { return data() + size(); }
  const uint8_t* begin() const { return data(); }
  const uint8_t* end() const { return data() + size(); }
  uint8_t& operator[](size_t at) { return data()[at]; }
  uint8_t operator[](size_t at) const { return data()[at]; }
  bool operator==(const Frame& other) const;

  /// The buffer as a bare pointer, for code that carries frames without knowing this class; `adopt` takes it back.
  void* detach() { return std::exchange(block_, nullptr); }
  static Frame adopt(void* token) {
    Frame frame;
    frame.block_ = static_cast<Block*>(token);
    return frame;
  }

 private:
  friend class FrameStore;
  /// For the RoCE MTUs with their headers, and for what is longer.
  static constexpr std::array<uint32_t, 6> kCapacities = {256, 640, 1280, 2304, 4352, 65536};
  struct alignas(64) Block {
    static constexpr size_t kHeadBytes = 16;  // so that a frame's headers lie in the first two cache lines
    Block* next;
    uint32_t bytes;
    uint32_t size_class;
    uint8_t* data() { return reinterpret_cast<uint8_t*>(this) + kHeadBytes; }
  };
  static Block* take(size_t bytes);
  static void give_back(Block* block);

  Block* block_ = nullptr;
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual void deliver(Frame&& frame) = 0;
};

}  // namespace uroce::sim
