#include "host/error_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace uroce {
namespace {

// System calls are made directly: the functions of libc can be where a thread is cancelled, which may hold locks here.

int status_of(struct stat& status) {
  return static_cast<int>(syscall(SYS_newfstatat, STDERR_FILENO, "", &status, AT_EMPTY_PATH));
}

/// Keeps this thread's SIGPIPE from the program.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const int error = errno;
    constexpr timespec kAtOnce{};
    if (broken && !was_pending_) syscall(SYS_rt_sigtimedwait, &pipe_, nullptr, &kAtOnce, _NSIG / 8);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

  bool broken = false;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

/// The same pipe or terminal, for which O_NONBLOCK is set for this process's line alone. Where it cannot be opened, it
/// is asked whether it has room: enough for a line in a pipe, unless another writer takes it first.
ssize_t write_through_another(const void* data, size_t size) {
  constexpr int kFlags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const auto own = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/fd/2", kFlags));
  if (own >= 0) {
    const ssize_t written = syscall(SYS_write, own, data, size);
    const int error = errno;
    syscall(SYS_close, own);
    errno = error;
    return written;
  }
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  constexpr timespec kAtOnce{};
  if (syscall(SYS_ppoll, &room, 1, &kAtOnce, nullptr, 0) == 1) return syscall(SYS_write, STDERR_FILENO, data, size);
  errno = EAGAIN;
  return -1;
}

ssize_t write_at_once(mode_t mode, const char* data, size_t size) {
  if (S_ISSOCK(mode)) {
    return syscall(SYS_sendto, STDERR_FILENO, data, size, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
  }
  if (S_ISREG(mode)) return syscall(SYS_write, STDERR_FILENO, data, size);
  const iovec piece{const_cast<char*>(data), size};
  constexpr long kNoOffset = -1;
  const ssize_t written = syscall(SYS_pwritev2, STDERR_FILENO, &piece, 1L, kNoOffset, kNoOffset, RWF_NOWAIT);
  if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)) return written;
  return write_through_another(data, size);
}

}  // namespace

ErrorOutput::ErrorOutput() {
  const int error = errno;
  struct stat status {};
  never_ = status_of(status) != 0 && errno == EBADF;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  errno = error;
}

// Who gives its errors another place puts a file, a pipe or a terminal at descriptor 2 with dup2, which leaves it open
// for the programs that it starts. What a program opens there unknowingly is a socket, or is closed with exec.
bool ErrorOutput::is_stderr(mode_t& mode) {
  struct stat status {};
  if (never_ || status_of(status) != 0) {
    never_ = never_ || errno == EBADF;
    return false;
  }
  mode = status.st_mode;
  if (status.st_dev == device_ && status.st_ino == inode_) return true;
  return !S_ISSOCK(mode) && (syscall(SYS_fcntl, STDERR_FILENO, F_GETFD) & FD_CLOEXEC) == 0;
}

void ErrorOutput::write(std::string line) {
  const int error_before = errno;
  mode_t mode = 0;
  if (is_stderr(mode)) {
    if (line.size() > kLongest) line.replace(kLongest - 1, std::string::npos, "\n");
    std::string text = is_cut_ ? "\n" : "";
    if (left_out_ != 0) text += "uroce: " + std::to_string(left_out_) + " lines are left out: stderr had no room\n";
    text += line;
    NoBrokenPipe signals;
    const ssize_t written = write_at_once(mode, text.data(), text.size());
    signals.broken = written < 0 && errno == EPIPE;
    if (written > 0) {
      left_out_ = 0;
      is_cut_ = static_cast<size_t>(written) < text.size();
    } else {
      left_out_++;
    }
  }
  errno = error_before;
}

}  // namespace uroce
