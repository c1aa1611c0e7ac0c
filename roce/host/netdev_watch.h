// Learns from the kernel when interfaces or their addresses change.
#pragma once

namespace uroce {

class NetdevWatch {
 public:
  NetdevWatch();
  ~NetdevWatch();
  NetdevWatch(const NetdevWatch&) = delete;
  NetdevWatch& operator=(const NetdevWatch&) = delete;
  /// True when a link or an address of any interface changed since the last call. Takes one system call when nothing
  /// did.
  bool changed();

 private:
  int fd_;
};

}  // namespace uroce
