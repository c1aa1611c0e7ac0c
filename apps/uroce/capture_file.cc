#include "capture_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>

#include "host/file_lock.h"

namespace uroce::launcher {

bool CaptureFile::open(const std::string& path, std::string& error) {
  if (path == "-") {
    fd_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (isatty(fd_) == 0) return true;
    error = "a capture is nothing to read on a terminal: uroce capture -w - | tshark -r -";
    return false;
  }
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  struct flock lock = whole_file(F_WRLCK);
  if (fd_ >= 0 && fcntl(fd_, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES)) {
    error = path + " is being written already, by another capture";
    return false;
  }
  struct stat st {};
  const bool regular = fd_ >= 0 && fstat(fd_, &st) == 0 && S_ISREG(st.st_mode);
  if (fd_ >= 0 && (!regular || ftruncate(fd_, 0) == 0)) return true;
  error = "cannot write " + path + ": " + std::strerror(errno);
  return false;
}

CaptureFile::~CaptureFile() {
  if (fd_ >= 0) close(fd_);
}

CaptureFile::Flushed CaptureFile::write_some(size_t at_most) {
  const ssize_t n = write(fd_, bytes_.data() + done_, std::min(at_most, bytes_.size() - done_));
  if (n < 0) return errno == EINTR ? Flushed::kInterrupted : errno == EPIPE ? Flushed::kReaderIsGone : Flushed::kFailed;
  done_ += static_cast<size_t>(n);
  written_ += static_cast<uint64_t>(n);
  return Flushed::kYes;
}

CaptureFile::Flushed CaptureFile::flush() {
  Flushed result = Flushed::kYes;
  while (result == Flushed::kYes && done_ < bytes_.size()) result = write_some(bytes_.size());
  drop_written();
  return result;
}

void CaptureFile::drop_written() {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(done_));
  done_ = 0;
}

CaptureFile::Flushed CaptureFile::flush_within(int milliseconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  Flushed result = Flushed::kYes;
  while ((result == Flushed::kYes || result == Flushed::kInterrupted) && done_ < bytes_.size() && Clock::now() < end) {
    pollfd entry{fd_, POLLOUT, 0};
    if (poll(&entry, 1, 50) > 0) result = write_some(PIPE_BUF);  // for which a pipe that is ready has room
  }
  if (result == Flushed::kYes && done_ < bytes_.size()) result = Flushed::kInterrupted;
  drop_written();
  return result;
}

}  // namespace uroce::launcher
