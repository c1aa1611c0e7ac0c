// The client's memory, as it was mapped over vfio-user.
#pragma once

#include <vector>

#include "pmd/card/host_memory.h"
#include "pmd/vfio_user/protocol.h"

namespace mqnic::card {

/// Memory that comes with a file is mapped into this process. Memory without one is only remembered: the card cannot
/// access it, and counts a DMA fault for each attempt. (The protocol has messages for such accesses, but network cards
/// are not used with what virtual machines map this way, which is ROMs and other devices.)
class ClientMemory {
 public:
  static constexpr size_t kMapsMax = 65536;

  explicit ClientMemory(HostMemory& host) : host_(host) {}
  ~ClientMemory() { clear(); }
  ClientMemory(const ClientMemory&) = delete;
  ClientMemory& operator=(const ClientMemory&) = delete;

  /// Returns 0 or a positive errno. `fd` is -1 when none came with the request.
  int map(const vfio_user::DmaMap& request, int fd);
  /// Removes every mapping in the range, which may be many or none: a virtual machine with an IOMMU takes away more
  /// than it gave. Returns EINVAL, and removes nothing, when the range is empty, wraps around or cuts through a
  /// mapping.
  int unmap(uint64_t address, uint64_t bytes);
  void clear();

 private:
  struct Mapping {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint8_t* data = nullptr;  // nullptr: the card cannot access it
    uint64_t last() const { return address + (bytes - 1); }
  };
  bool overlaps(uint64_t address, uint64_t bytes) const;
  void release(const Mapping& mapping);

  HostMemory& host_;
  std::vector<Mapping> mappings_;  // sorted by address
};

}  // namespace mqnic::card
