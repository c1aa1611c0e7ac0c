// Makes pools of packet buffers that hold a whole frame in one piece.
#pragma once

#include <cstdint>
#include <string>

struct rte_mempool;

namespace uroce {

struct PacketPoolShape {
  std::string name;  // unique for every pool in a process
  unsigned mbufs = 0;
  uint32_t frame_bytes = 0;  // the longest frame
  bool dma = false;          // a real device reads and writes the buffers
};

/// Returns nullptr, with one line in `error`, when there is not enough memory. An earlier pool of that name that could
/// not be freed, because the queues of a port that remains use it, is used again if it fits.
rte_mempool* make_packet_pool(const PacketPoolShape& shape, std::string& error);

/// The approximate memory of such a pool; pages may not be filled to their last byte.
uint64_t packet_pool_bytes(const PacketPoolShape& shape);

/// True when the port's device is a real one.
bool port_uses_dma(uint16_t port_id);

}  // namespace uroce
