// Hears from the kernel when interfaces or their addresses change.
#pragma once

namespace uroce {

class NetdevWatch {
 public:
  NetdevWatch();
  ~NetdevWatch();
  NetdevWatch(const NetdevWatch&) = delete;
  NetdevWatch& operator=(const NetdevWatch&) = delete;
  /// Something changed since the last call: some link or address, of any interface. One system call when nothing did.
  bool changed();

 private:
  int fd_;
};

}  // namespace uroce
