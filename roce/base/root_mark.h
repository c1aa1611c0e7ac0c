// Whether paths still lead where they did: a process may change its root directory (chroot) while it runs.
#pragma once

#include <sys/stat.h>

namespace uroce {

class RootMark {
 public:
  /// Notes where "/" is now.
  RootMark() { known_ = stat("/", &root_) == 0; }
  /// True also when one of the two could not be asked.
  bool same() const {
    struct stat now {};
    return !known_ || stat("/", &now) != 0 || (now.st_dev == root_.st_dev && now.st_ino == root_.st_ino);
  }

 private:
  bool known_ = false;
  struct stat root_ {};
};

}  // namespace uroce
