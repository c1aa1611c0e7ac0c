// A frame inside the network, and the interface of the pool that owns the memory of frames.
//
// The fabric moves frames without knowing what they are: pooled buffers in the simulator (`BufferPool`), mbufs in
// uroce-switch. A function that gets a `FabricFrame` by value owns it from then on, and passes it on or releases it.
#pragma once

#include <cstdint>
#include <span>

#include "uroce/time.h"

namespace uroce::fabric {

using PortId = uint16_t;

/// What Ethernet adds to a frame on the cable: preamble, frame check sequence and gap.
inline constexpr uint32_t kWireOverheadBytes = 24;

struct FabricFrame {
  uint8_t* data = nullptr;  // from the Ethernet header on, without frame check sequence; may be written
  uint32_t bytes = 0;
  void* token = nullptr;  // for the pool

  explicit operator bool() const { return data != nullptr; }
  std::span<const uint8_t> view() const { return {data, bytes}; }
  std::span<uint8_t> view() { return {data, bytes}; }
};

class FramePool {
 public:
  virtual ~FramePool() = default;
  /// A frame of `bytes` bytes with undefined contents, or a frame without data when the pool has none left.
  virtual FabricFrame allocate(uint32_t bytes) = 0;
  /// A frame with the same bytes that can be written without changing `frame`, or a frame without data when the pool
  /// has none left. (An mbuf must be copied for this, not just referenced once more, because a switch marks ECN in
  /// place.)
  virtual FabricFrame clone(const FabricFrame& frame) = 0;
  virtual void release(const FabricFrame& frame) = 0;
};

}  // namespace uroce::fabric
