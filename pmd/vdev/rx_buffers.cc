#include "pmd/vdev/rx_buffers.h"

#include <utility>

namespace uroce::vdev {

bool RxBuffers::fill() {
  if (count != 0) return true;
  if (rte_pktmbuf_alloc_bulk(pool, ready.data(), static_cast<unsigned>(ready.size())) == 0) {
    count = static_cast<uint32_t>(ready.size());
  } else if ((ready[0] = rte_pktmbuf_alloc(pool)) != nullptr) {
    count = 1;  // the pool's last ones
  }
  return count != 0;
}

void RxBuffers::drop() { rte_pktmbuf_free_bulk(ready.data(), std::exchange(count, 0)); }

}  // namespace uroce::vdev
