// A whole file in memory: mapped when it can be, read when it is a pipe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace uroce::apps {

class MappedFile {
 public:
  /// A `path` of "-" is standard input. When the file cannot be read, `error()` says why.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& error() const { return error_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  void read_all(int fd);

  void* map_ = nullptr;
  std::vector<uint8_t> buffer_;
  std::span<const uint8_t> bytes_;
  std::string error_;
};

}  // namespace uroce::apps
