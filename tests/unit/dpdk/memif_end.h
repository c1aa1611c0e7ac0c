// Two ports of a process that are joined, without rights: DPDK's own shared memory driver.
#pragma once

#include <cstdlib>
#include <string>

namespace uroce {

/// An end of a wire of DPDK's shared memory driver, as a user writes it: 0 listens. The driver tells sockets apart by
/// their paths as spelled, and each end has a record of its own.
inline std::string memif_end(unsigned wire, unsigned end) {
  const std::string path = std::string(std::getenv("UROCE_RUNTIME_DIR")) + (end == 0 ? "/" : "/./");
  return "net_memif" + std::to_string(2 * wire + end) + ",role=" + (end == 0 ? "server" : "client") +
         ",socket=" + path + "memif" + std::to_string(wire) + ".sock,socket-abstract=no,bsize=4352,rsize=8";
}

}  // namespace uroce
