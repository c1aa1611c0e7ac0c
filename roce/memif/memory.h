// The memory that a peer shares, and that it goes on writing, or tries to take away, while we use it.
//
// A region is taken only if it is memory (no file, no huge page) that cannot shrink: sealed with F_SEAL_SHRINK, which
// nobody can take back, and as long as the peer says. So no access to it ever raises SIGBUS. What it may cost us is
// bounded by its size, which a handshake limits.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace uroce::memif {

/// A file descriptor that is closed with its owner.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

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

  /// Maps the next region; the file is not needed afterwards. Empty, or what is wrong with it.
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
