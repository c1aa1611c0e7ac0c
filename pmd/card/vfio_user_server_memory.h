// The client's memory, as it was mapped over vfio-user.
#pragma once

#include <vector>

#include "pmd/card/host_memory.h"
#include "pmd/vfio_user/protocol.h"

namespace mqnic::card {

/// Memory that comes with a file is mapped into this process. Memory without one is remembered and nothing more: the
/// card cannot reach it, and counts a DMA fault for each try. (The protocol has messages for that; what virtual
/// machines map so - ROMs, other devices - no network card is told to use.)
class ClientMemory {
 public:
  static constexpr size_t kMapsMax = 65536;

  explicit ClientMemory(HostMemory& host) : host_(host) {}
  ~ClientMemory() { clear(); }
  ClientMemory(const ClientMemory&) = delete;
  ClientMemory& operator=(const ClientMemory&) = delete;

  /// 0 or a positive errno. `fd` is -1 when none came.
  int map(const vfio_user::DmaMap& request, int fd);
  /// Exactly what was mapped before.
  int unmap(uint64_t address, uint64_t bytes);
  void clear();

 private:
  struct Mapping {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint8_t* data = nullptr;  // nullptr: not within reach
  };
  bool overlaps(uint64_t address, uint64_t bytes) const;

  HostMemory& host_;
  std::vector<Mapping> mappings_;  // sorted by address
};

}  // namespace mqnic::card
