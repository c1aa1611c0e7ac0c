// A frame on its way to a queue pair of raw packets.
#pragma once

#include <cstdint>

namespace uroce {

/// A frame that arrived for a queue pair of raw packets.
struct RawFrame {
  const uint8_t* head = nullptr;  // its first bytes, which do not change meanwhile
  uint32_t head_bytes = 0;
  const uint8_t* rest = nullptr;  // what follows
  uint32_t rest_bytes = 0;
  uint32_t flow_tag = 0;
};

}  // namespace uroce
