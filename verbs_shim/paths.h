// Files that programs look for besides symbols: /sys/class/infiniband*, /dev/infiniband.
#pragma once

#include <fcntl.h>

#include <string>

namespace uroce::verbs {

/// Where `path` really lies, seen from `directory` when it is a relative one: a file of ours, or nothing when the
/// kernel finds it as it is (or UROCE_PATHS=0).
bool translate_path(const char* path, std::string& translated, int directory = AT_FDCWD);

/// Making the tree uses files itself, and drivers look into sysfs while they start: in the scope of one of these the
/// calling thread sees the real thing.
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
