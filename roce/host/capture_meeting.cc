#include "host/capture_meeting.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "host/reachable_directory.h"
#include "host/runtime_dir.h"

namespace uroce {
namespace {

constexpr std::string_view kCapturePrefix = "capture.";
constexpr std::string_view kEverybody = ".all";
constexpr int kGuestsWaiting = 128;

bool valid_capture_name(const std::string& name) {
  return name.starts_with(kCapturePrefix) && name.size() < 64 && name.find('/') == std::string::npos;
}

class SocketAddress {
 public:
  SocketAddress(const std::string& dir, const std::string& name) : dir_(dir, name.size()) {
    address_.sun_family = AF_UNIX;
    const std::string path = dir_.path() + "/" + name;
    fits_ = path.size() < sizeof address_.sun_path;
    if (fits_) path.copy(address_.sun_path, path.size());
  }

  int connect(int fd) const { return call(::connect, fd); }
  int bind(int fd) const { return call(::bind, fd); }

 private:
  int call(int (*function)(int, const sockaddr*, socklen_t), int fd) const {
    errno = ENAMETOOLONG;
    return fits_ ? function(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) : -1;
  }

  ReachableDirectory dir_;
  sockaddr_un address_{};
  bool fits_ = false;
};

/// -1 when no capture listens there; the socket that a killed one left is then removed.
int connect_to(const std::string& dir, const std::string& name) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (SocketAddress(dir, name).connect(fd) == 0) return fd;
  const int reason = errno;
  close(fd);
  if (reason == ECONNREFUSED) unlink((dir + "/" + name).c_str());
  errno = reason;
  return -1;
}

bool send_greeting(int fd, const CaptureGreeting& greeting, int ring_fd) {
  iovec bytes{const_cast<CaptureGreeting*>(&greeting), sizeof greeting};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &ring_fd, sizeof ring_fd);
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof greeting);
}

/// The one descriptor of a message; -1 when there is another number of them, which are closed then.
int take_fd(msghdr& message) {
  int taken = -1;
  size_t count = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (count++ == 0) {
        taken = fd;
      } else {
        close(fd);
      }
    }
  }
  if (count > 1) close(std::exchange(taken, -1));
  return taken;
}

}  // namespace

CaptureGreeting make_greeting(const std::string& port) {
  CaptureGreeting greeting;
  greeting.pid = getpid();
  std::snprintf(greeting.program, sizeof greeting.program, "%s", program_invocation_short_name);
  std::snprintf(greeting.port, sizeof greeting.port, "%s", port.c_str());
  return greeting;
}

bool CaptureConnection::join(const std::string& name, const CaptureGreeting& greeting, int ring_fd,
                             std::string& error) {
  if (!valid_capture_name(name)) {
    error = "that is not the name of a capture";
    return false;
  }
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return false;
  name_ = name;
  fd_ = connect_to(dir, name);
  if (fd_ >= 0 && send_greeting(fd_, greeting, ring_fd)) return true;
  error = "cannot reach " + dir + "/" + name + ": " + std::strerror(errno);
  return false;
}

CaptureConnection::~CaptureConnection() { forget(); }

void CaptureConnection::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

bool CaptureConnection::lost() const { return fd_ < 0 || is_closed(fd_); }

void CaptureConnection::clean_up() const {
  std::string error;
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return;
  if (const int fd = connect_to(dir, name_); fd >= 0) close(fd);
}

std::vector<std::string> open_captures() {
  std::vector<std::string> found;
  std::string error;
  const std::string dir = runtime_dir(error);
  for (const std::string& name : names_in(dir)) {
    if (valid_capture_name(name) && name.ends_with(kEverybody)) found.push_back(name);
  }
  return found;
}

bool CaptureListener::open(bool everybody, std::string& error) {
  const std::string dir = runtime_dir(error);
  if (dir.empty()) return false;
  for (const std::string& name : open_captures()) {
    if (const int fd = connect_to(dir, name); fd >= 0) close(fd);
  }
  SystemRandom random;
  char number[20];
  std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(random.next_u64()));
  name_ = std::string(kCapturePrefix) + number + std::string(everybody ? kEverybody : ".some");
  fd_ = make(dir, error);
  return fd_ >= 0;
}

int CaptureListener::make(const std::string& dir, std::string& error) {
  const std::string early = "new-" + name_;  // a name that nobody looks for, until the socket accepts connections
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && SocketAddress(dir, early).bind(fd.get()) == 0) {
    path_ = dir + "/" + name_;
    if (listen(fd.get(), kGuestsWaiting) == 0 && rename((dir + "/" + early).c_str(), path_.c_str()) == 0)
      return fd.release();
  }
  error = "cannot make a socket in " + dir + ": " + std::strerror(errno);
  unlink((dir + "/" + early).c_str());
  return -1;
}

bool CaptureListener::open_again() {
  struct stat st {};
  if (lstat(path_.c_str(), &st) == 0 || errno != ENOENT) return false;
  std::string error;
  const std::string dir = runtime_dir(error);
  const UniqueFd fd(dir.empty() ? -1 : make(dir, error));
  return fd && dup3(fd.get(), fd_, O_CLOEXEC) >= 0;
}

CaptureListener::~CaptureListener() {
  if (!path_.empty()) unlink(path_.c_str());
  if (fd_ >= 0) close(fd_);
}

int CaptureListener::accept() const { return accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }

Greeted read_greeting(int fd, CaptureGuest& guest) {
  iovec bytes{&guest.greeting, sizeof guest.greeting};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return Greeted::kNotYet;
  if (length < 0) return Greeted::kNo;
  guest.ring_fd = take_fd(message);
  CaptureGreeting& g = guest.greeting;
  const bool good = length == sizeof g && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                    g.magic == CaptureGreeting::kMagic && g.version == CaptureGreeting::kVersion && guest.ring_fd >= 0;
  g.program[sizeof g.program - 1] = g.port[sizeof g.port - 1] = 0;
  if (good) return Greeted::kYes;
  if (guest.ring_fd >= 0) close(std::exchange(guest.ring_fd, -1));
  return Greeted::kNo;
}

bool is_closed(int fd) {
  char byte;
  const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace uroce
