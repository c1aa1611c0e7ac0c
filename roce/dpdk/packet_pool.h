// Packet buffers that hold a whole frame in one piece.
#pragma once

#include <cstdint>
#include <string>

struct rte_mempool;

namespace uroce {

struct PacketPoolShape {
  std::string name;  // one of its own for every user of a pool in a process
  unsigned mbufs = 0;
  uint32_t frame_bytes = 0;  // the longest frame
  bool dma = false;          // a device that is not virtual reads and writes them
};

/// nullptr and one line in `error` when there is not enough memory. What an earlier user of that name could not free,
/// because the queues of a port that stays keep it, is used again when it fits.
rte_mempool* make_packet_pool(const PacketPoolShape& shape, std::string& error);

/// The memory that takes, nearly: pages may not be filled to their last byte.
uint64_t packet_pool_bytes(const PacketPoolShape& shape);

/// True when the port's device is a real one.
bool port_uses_dma(uint16_t port_id);

}  // namespace uroce
