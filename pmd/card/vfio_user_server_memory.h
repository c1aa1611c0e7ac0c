// The client's memory, as it was mapped over vfio-user.
#pragma once

#include <span>
#include <vector>

#include "pmd/card/host_memory.h"
#include "pmd/card/vfio_user_server_dma.h"
#include "pmd/vfio_user/protocol.h"

namespace mqnic::card {

/// Memory that comes with a file is mapped into this process. For memory without one, which a client may keep to
/// itself, the client is asked each time.
class ClientMemory final : public RemoteMemory {
 public:
  static constexpr size_t kMapsMax = 65536;

  /// Both outlive this.
  ClientMemory(HostMemory& host, DmaMessages& messages) : host_(host), messages_(messages) { host_.set_remote(this); }
  ~ClientMemory() override {
    clear();
    host_.set_remote(nullptr);
  }
  ClientMemory(const ClientMemory&) = delete;
  ClientMemory& operator=(const ClientMemory&) = delete;

  /// Returns 0 or a positive errno. `fd` is -1 when none came with the request.
  int map(const vfio_user::DmaMap& request, int fd);
  /// Removes every mapping in the range, which may be many or none: a virtual machine with an IOMMU takes away more
  /// than it gave. Returns EINVAL, and removes nothing, when the range is empty, wraps around or cuts through a
  /// mapping.
  int unmap(uint64_t address, uint64_t bytes);
  void clear();

  // For memory without a file:
  size_t read(uint64_t dma_address, std::span<uint8_t> to) override;
  size_t write(uint64_t dma_address, std::span<const uint8_t> from) override;
  bool lost() const override { return messages_.trouble() != DmaMessages::Trouble::kNone; }
  /// True when there is such memory.
  bool asks() const { return private_ != 0; }

 private:
  struct Mapping {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint32_t rights = 0;
    uint8_t* data = nullptr;  // nullptr: by messages
    uint64_t last() const { return address + (bytes - 1); }
  };
  bool overlaps(uint64_t address, uint64_t bytes) const;
  void release(const Mapping& mapping);
  size_t remote_bytes(uint64_t address, size_t wanted, uint32_t right) const;

  HostMemory& host_;
  DmaMessages& messages_;
  std::vector<Mapping> mappings_;  // sorted by address
  size_t private_ = 0;             // the number of mappings without a file
};

}  // namespace mqnic::card
