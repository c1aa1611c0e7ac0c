// Where received frames go: mbufs of one pool, taken in advance.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>

namespace uroce::vdev {

struct RxBuffers {
  rte_mempool* pool = nullptr;
  uint16_t port_id = 0;
  bool scatter = false;  // a frame may be in several segments
  uint32_t count = 0;
  std::array<rte_mbuf*, 64> ready{};

  /// Returns false when the pool is empty, and none is ready.
  bool fill();
  void drop();
};

}  // namespace uroce::vdev
