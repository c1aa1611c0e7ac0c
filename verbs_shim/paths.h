// The files that programs look for: /sys/class/infiniband*, /sys/class/misc/rdma_cm and /dev/infiniband.
#pragma once

#include <fcntl.h>

#include <string>

namespace uroce::verbs {

/// If `path` (relative to `directory`, unless it is absolute) names one of our files, returns true and the real path in
/// `translated`. False when the kernel finds the path as it is, or with UROCE_PATHS=0.
bool translate_path(const char* path, std::string& translated, int directory = AT_FDCWD);

/// False with UROCE_PATHS=0.
bool path_layer_on();

/// Making the tree uses files itself, and drivers look into sysfs while they start: within the scope of an OwnFiles
/// object the calling thread sees the real files.
extern constinit thread_local bool inside_own_files;
class OwnFiles {
 public:
  OwnFiles() : before_(inside_own_files) { inside_own_files = true; }
  ~OwnFiles() { inside_own_files = before_; }
  OwnFiles(const OwnFiles&) = delete;
  OwnFiles& operator=(const OwnFiles&) = delete;

 private:
  bool before_;
};

}  // namespace uroce::verbs
