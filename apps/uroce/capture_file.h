// The file that `uroce capture` writes, or the pipe: blocks in memory until `flush`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace uroce::launcher {

class CaptureFile {
 public:
  CaptureFile() = default;
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  /// "-": stdout. Returns false, with one line in `error`, when it cannot be written, or is being written already.
  bool open(const std::string& path, std::string& error);

  /// The bytes to be written, for the caller to append to.
  std::vector<uint8_t>& bytes() { return bytes_; }
  /// The size of the file, with what is not flushed yet.
  uint64_t size() const { return written_ + bytes_.size(); }

  enum class Flushed : uint8_t {
    kYes,
    kPartly,        // the reader of a pipe takes no more now
    kReaderIsGone,  // of a pipe
    kFailed,        // errno says why
  };
  /// Waits up to so many milliseconds for the reader of a pipe.
  Flushed flush(int milliseconds);

 private:
  Flushed write_some();
  void drop_written();

  int fd_ = -1;
  bool regular_ = false;  // else a pipe, or a device
  std::vector<uint8_t> bytes_;
  size_t done_ = 0;  // how many of them are written
  uint64_t written_ = 0;
};

}  // namespace uroce::launcher
