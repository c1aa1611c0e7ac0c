// The memory that a peer shares. While the server uses it, the peer may go on writing to it, or try to take it away.
//
// A region is accepted only if it is ordinary memory (no file, no huge pages), as long as the peer says, and cannot
// shrink because it is sealed with F_SEAL_SHRINK, which cannot be undone. So no access to it ever raises SIGBUS. How
// much memory it can cost is bounded by its size, which the handshake limits.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace uroce::memif {

class Memory {
 public:
  Memory() = default;
  ~Memory() { clear(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&& other) noexcept : regions_(std::exchange(other.regions_, {})) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(regions_, other.regions_);
    return *this;
  }

  /// Maps the next region; `fd` is not needed afterwards. Returns an empty string, or what is wrong with the region.
  std::string add(int fd, uint64_t bytes);
  void clear();
  size_t regions() const { return regions_.size(); }

  /// `bytes` bytes at `offset` of a region; nullptr when not all of them are inside it.
  uint8_t* at(uint16_t region, uint64_t offset, uint64_t bytes) const {
    if (region >= regions_.size()) return nullptr;
    const Region& of = regions_[region];
    return offset <= of.bytes && bytes <= of.bytes - offset ? of.base + offset : nullptr;
  }

 private:
  struct Region {
    uint8_t* base = nullptr;
    uint64_t bytes = 0;
  };
  std::vector<Region> regions_;
};

}  // namespace uroce::memif
