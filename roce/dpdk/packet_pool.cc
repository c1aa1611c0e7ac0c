#include "dpdk/packet_pool.h"

#include <cstring>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

namespace uroce {
namespace {

constexpr unsigned kCache = 64;

uint32_t data_room(const PacketPoolShape& shape) {
  // A port that cannot use larger buffers (AF_XDP) gets small ones.
  const uint32_t room = shape.frame_bytes <= 1700 ? 2048 : (shape.frame_bytes + 511) / 512 * 512;
  return room + RTE_PKTMBUF_HEADROOM;
}

bool fits(rte_mempool& pool, const PacketPoolShape& shape) {
  const bool for_dma = (pool.flags & RTE_MEMPOOL_F_NO_IOVA_CONTIG) == 0;
  return pool.size >= shape.mbufs && rte_pktmbuf_data_room_size(&pool) >= data_room(shape) && for_dma == shape.dma;
}

}  // namespace

uint64_t packet_pool_bytes(const PacketPoolShape& shape) {
  const uint32_t element = static_cast<uint32_t>(sizeof(rte_mbuf)) + data_room(shape);
  return uint64_t{shape.mbufs} * rte_mempool_calc_obj_size(element, 0, nullptr);
}

rte_mempool* make_packet_pool(const PacketPoolShape& shape, std::string& error) {
  std::string name = shape.name;
  for (unsigned number = 2; rte_mempool* left = rte_mempool_lookup(name.c_str()); number++) {
    if (fits(*left, shape)) return left;
    name = shape.name + "." + std::to_string(number);
  }
  rte_pktmbuf_pool_private layout{};
  layout.mbuf_data_room_size = static_cast<uint16_t>(data_room(shape));
  // Without hugepages DPDK avoids buffers that cross a page, which only DMA needs; net_af_xdp even relies on buffers
  // that are contiguous.
  rte_mempool* pool = rte_mempool_create_empty(
      name.c_str(), shape.mbufs, static_cast<unsigned>(sizeof(rte_mbuf)) + layout.mbuf_data_room_size, kCache,
      sizeof layout, SOCKET_ID_ANY, shape.dma ? 0 : RTE_MEMPOOL_F_NO_IOVA_CONTIG);
  bool good = pool != nullptr && rte_mempool_set_ops_byname(pool, "ring_mp_mc", nullptr) == 0;
  if (good) rte_pktmbuf_pool_init(pool, &layout);
  good = good && rte_mempool_populate_default(pool) >= 0;
  if (good) {
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
    return pool;
  }
  if (pool != nullptr) rte_mempool_free(pool);
  error = "not enough memory for packet buffers (" + std::to_string(packet_pool_bytes(shape) / 1000000 + 1) +
          " MB); with --eal give DPDK more (-m), or use --hugepages no";
  return nullptr;
}

bool port_uses_dma(uint16_t port_id) {
  rte_eth_dev_info info{};
  return rte_eth_dev_info_get(port_id, &info) == 0 && info.device != nullptr &&
         std::strcmp(rte_bus_name(rte_dev_bus(info.device)), "vdev") != 0;
}

}  // namespace uroce
