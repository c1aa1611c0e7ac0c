// Learns from the kernel when interfaces or their addresses change.
#pragma once

namespace uroce {

class NetdevWatch {
 public:
  NetdevWatch() { listen(); }
  ~NetdevWatch();
  NetdevWatch(const NetdevWatch&) = delete;
  NetdevWatch& operator=(const NetdevWatch&) = delete;
  /// True when a link or an address of any interface changed since the last call, or may have, since nothing could be
  /// heard. Takes one system call when nothing did.
  bool changed();

 private:
  /// What cannot be had now is tried again with the next look.
  bool listen();

  int fd_ = -1;
};

}  // namespace uroce
