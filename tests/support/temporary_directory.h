#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace uroce {

/// A directory removed with its owner, but not by a child that inherited it; $UROCE_RUNTIME_DIR while it lives.
class TemporaryRuntimeDir {
 public:
  TemporaryRuntimeDir() {
    std::string name = (std::filesystem::temp_directory_path() / "uroce-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
    setenv("UROCE_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~TemporaryRuntimeDir() {
    unsetenv("UROCE_RUNTIME_DIR");
    if (getpid() == owner_) std::filesystem::remove_all(path_);
  }
  TemporaryRuntimeDir(const TemporaryRuntimeDir&) = delete;
  TemporaryRuntimeDir& operator=(const TemporaryRuntimeDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  const pid_t owner_ = getpid();
  std::filesystem::path path_;
};

}  // namespace uroce
