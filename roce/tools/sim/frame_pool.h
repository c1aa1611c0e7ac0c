// The simulator's frames as frames of the fabric: the same buffers, passed on without a copy.
#pragma once

#include "fabric/frame.h"
#include "sim/frame.h"

namespace uroce::sim {

class SimFramePool final : public fabric::FramePool {
 public:
  fabric::FabricFrame allocate(uint32_t bytes) override {
    Frame frame = Frame::with_capacity(bytes);
    frame.set_size(bytes);
    return to_fabric(std::move(frame));
  }
  fabric::FabricFrame clone(const fabric::FabricFrame& frame) override { return to_fabric(Frame(frame.view())); }
  void release(const fabric::FabricFrame& frame) override { from_fabric(frame); }

  static fabric::FabricFrame to_fabric(Frame&& frame) {
    const auto bytes = static_cast<uint32_t>(frame.size());
    uint8_t* const data = frame.data();
    return {data, bytes, frame.detach()};
  }
  static Frame from_fabric(const fabric::FabricFrame& frame) { return Frame::adopt(frame.token); }
};

}  // namespace uroce::sim
