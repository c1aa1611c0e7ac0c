// A directory under a name that is short enough for the address of a socket in it, which has room for some hundred
// characters.
#pragma once

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace uroce {

class ReachableDirectory {
 public:
  /// `longest`: the length of the longest name of a socket in it. Keeps a descriptor if `path` is too long.
  ReachableDirectory(std::string path, size_t longest) : path_(std::move(path)) {
    if (path_.size() + 1 + longest < sizeof(sockaddr_un::sun_path)) return;
    fd_ = open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd_ >= 0) path_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  ~ReachableDirectory() {
    if (fd_ >= 0) close(fd_);
  }
  ReachableDirectory(const ReachableDirectory&) = delete;
  ReachableDirectory& operator=(const ReachableDirectory&) = delete;

  /// In this process, as long as this object lives.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace uroce
