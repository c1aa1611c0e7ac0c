#include "capture_file.h"
#include "base/file_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>

namespace uroce::launcher {
namespace {

bool is_regular(int fd) {
  struct stat st {};
  return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

}  // namespace

bool CaptureFile::open(const std::string& path, std::string& error) {
  if (path == "-") {
    fd_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    regular_ = is_regular(fd_);
    if (isatty(fd_) == 0) return true;
    error = "a capture is nothing to read on a terminal: uroce capture -w - | tshark -r -";
    return false;
  }
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ >= 0 && !lock_file(fd_) && is_held_by_another(errno)) {
    error = path + " is being written already, by another capture";
    return false;
  }
  regular_ = is_regular(fd_);
  if (fd_ >= 0 && (!regular_ || ftruncate(fd_, 0) == 0)) return true;
  error = "cannot write " + path + ": " + std::strerror(errno);
  return false;
}

CaptureFile::~CaptureFile() {
  if (fd_ >= 0) close(fd_);
}

CaptureFile::Flushed CaptureFile::write_some() {
  const size_t left = bytes_.size() - done_;
  // A pipe that is ready takes this much without waiting for its reader.
  const ssize_t n = write(fd_, bytes_.data() + done_, regular_ ? left : std::min<size_t>(left, PIPE_BUF));
  if (n < 0) return errno == EINTR ? Flushed::kPartly : errno == EPIPE ? Flushed::kReaderIsGone : Flushed::kFailed;
  done_ += static_cast<size_t>(n);
  written_ += static_cast<uint64_t>(n);
  return Flushed::kYes;
}

void CaptureFile::drop_written() {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(done_));
  done_ = 0;
}

CaptureFile::Flushed CaptureFile::flush(int milliseconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  Flushed result = Flushed::kYes;
  while ((result == Flushed::kYes || result == Flushed::kPartly) && done_ < bytes_.size() && Clock::now() < end) {
    pollfd entry{fd_, POLLOUT, 0};
    if (regular_ || poll(&entry, 1, milliseconds) > 0) result = write_some();
  }
  if (result == Flushed::kYes && done_ < bytes_.size()) result = Flushed::kPartly;
  drop_written();
  return result;
}

}  // namespace uroce::launcher
