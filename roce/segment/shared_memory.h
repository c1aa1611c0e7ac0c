// Memory that one member writes and its peers read.
#pragma once

#include <cstddef>
#include <string>

namespace uroce::segment {

/// Memory of this process that it can pass on: sealed, so that a process that gets the descriptor can neither write to
/// it nor change its size.
class OwnMemory {
 public:
  OwnMemory() = default;
  ~OwnMemory();
  OwnMemory(OwnMemory&& other) noexcept;
  OwnMemory& operator=(OwnMemory&& other) noexcept;

  /// Filled with zeros. Returns false, with one line in `error`, when the kernel does not give it.
  bool make(const char* name, size_t bytes, std::string& error);
  void* data() const { return data_; }
  /// To be passed on; -1 after `close_fd`.
  int fd() const { return fd_; }
  /// The memory stays; it cannot be passed on any more.
  void close_fd();
  /// In the child of a fork: the memory is the parent's.
  void forget();

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  int fd_ = -1;
};

/// A peer's memory, to be read only. Its writer may change it at any time.
class PeerMemory {
 public:
  PeerMemory() = default;
  ~PeerMemory();
  PeerMemory(PeerMemory&& other) noexcept;
  PeerMemory& operator=(PeerMemory&& other) noexcept;

  /// Maps `fd`, which stays the caller's. False when it is not sealed memory of exactly this size: anything else could
  /// go away under the reader.
  bool map(int fd, size_t bytes);
  const void* data() const { return data_; }

 private:
  const void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace uroce::segment
