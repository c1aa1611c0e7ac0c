// Frames in plain memory: the pool of the simulator and of tests.
//
// All buffers have one size. The one released last is used next, which keeps buffers in the cache. The pool grows by
// slabs up to its limit and never shrinks, so that nothing is allocated any more once a run has warmed up, or after
// `reserve`. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "fabric/frame.h"

namespace uroce::fabric {

class BufferPool final : public FramePool {
 public:
  /// Room for an Ethernet and IPv6 frame with 4096 bytes of payload.
  static constexpr uint32_t kDefaultBufferBytes = 4352;

  explicit BufferPool(uint32_t buffer_bytes = kDefaultBufferBytes, size_t max_buffers = SIZE_MAX)
      : buffer_bytes_(buffer_bytes), max_buffers_(max_buffers) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Makes room for so many buffers now, so that nothing is allocated later. The memory is not touched yet.
  void reserve(size_t buffers);
  FabricFrame allocate(uint32_t bytes) override {
    if (bytes > buffer_bytes_ || (free_.empty() && !grow())) return {};
    uint8_t* data = free_.back();
    free_.pop_back();
    return {data, bytes, nullptr};
  }
  FabricFrame clone(const FabricFrame& frame) override;
  void release(const FabricFrame& frame) override {
    ensure(free_.size() < buffers_, "a buffer comes back once");
    free_.push_back(frame.data);
  }

  uint32_t buffer_bytes() const { return buffer_bytes_; }
  size_t buffers() const { return buffers_; }
  /// Frames that are in use. If it is not 0 at the end, there is a leak.
  size_t in_use() const { return buffers_ - free_.size(); }

 private:
  static constexpr size_t kSlabBuffers = 64;

  bool grow(size_t wanted = kSlabBuffers);

  uint32_t buffer_bytes_;
  size_t max_buffers_;
  size_t buffers_ = 0;
  std::vector<std::unique_ptr<uint8_t[]>> slabs_;
  std::vector<uint8_t*> free_;
};

}  // namespace uroce::fabric
