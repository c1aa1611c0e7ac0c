// A directory under a name that is short enough for the address of a socket in it, which has room for some hundred
// characters.
#pragma once

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

namespace uroce {

class ReachableDirectory {
 public:
  enum class Keep : uint8_t {
    kIfNeeded,     // a descriptor, if `path` is too long
    kIfThereIsOne  // always, where /proc has them: the name is no other process's
  };
  /// `longest`: the length of the longest name of a socket in it.
  ReachableDirectory(std::string path, size_t longest, Keep keep = Keep::kIfNeeded) : path_(std::move(path)) {
    const bool is_short = path_.size() + 1 + longest < sizeof(sockaddr_un::sun_path);
    if (is_short && keep == Keep::kIfNeeded) return;
    fd_ = open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd_ < 0) return;
    std::string through = "/proc/self/fd/" + std::to_string(fd_);
    if (is_short && access(through.c_str(), F_OK) != 0) {
      leave();
    } else {
      path_ = std::move(through);
    }
  }
  ~ReachableDirectory() { leave(); }
  /// From now on nothing is there by that path.
  void leave() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
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
