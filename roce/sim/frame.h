// A frame on its way, and whoever takes it.
#pragma once

#include <cstdint>
#include <vector>

namespace uroce::sim {

using Frame = std::vector<uint8_t>;

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual void deliver(Frame&& frame) = 0;
};

}  // namespace uroce::sim
