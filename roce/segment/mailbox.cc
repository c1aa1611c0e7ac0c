#include "segment/mailbox.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/kept_errno.h"
#include "base/no_cancel.h"
#include "segment/confined_send.h"

namespace uroce::segment {
namespace {

constexpr size_t kFdsMax = 2;
constexpr size_t kSenderBytes = CMSG_SPACE(sizeof(ucred));  // stands before the descriptors
constexpr int kBadLetters = 8;                              // bad letters that are passed over in one call

struct Address {
  sockaddr_un un{};
  socklen_t bytes = 0;
};

/// False when the path is too long for a socket's address.
bool make_address(const std::string& path, Address& address) {
  if (path.size() >= sizeof address.un.sun_path) return false;
  address.un.sun_family = AF_UNIX;
  std::memcpy(address.un.sun_path, path.c_str(), path.size() + 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return true;
}

/// Whether a letter comes from the mailbox of the member that it names. That stops a program with a bug, not a
/// malicious one: the name of a mailbox does not tell its directory.
bool is_from(const Address& sender, socklen_t bytes, MemberId member) {
  constexpr socklen_t kBefore = offsetof(sockaddr_un, sun_path);
  if (bytes <= kBefore) return false;  // the sender's socket has no name
  const std::string_view path(sender.un.sun_path, strnlen(sender.un.sun_path, bytes - kBefore));
  return path.ends_with("/" + Directory::file_name('s', member));
}

/// Takes the descriptors out of a message, also from control messages of unexpected kinds. Returns how many.
size_t take_fds(msghdr& message, int (&fds)[kFdsMax]) {
  size_t count = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (count < kFdsMax) {
        fds[count++] = fd;
      } else {
        close(fd);
      }
    }
  }
  return count;
}

LetterSender sender_of(msghdr& message) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
    ucred who{};
    std::memcpy(&who, CMSG_DATA(header), sizeof who);
    return {who.pid, who.uid};
  }
  return {};
}

}  // namespace

bool Mailbox::open(Directory& directory, MemberId own, std::string& error) {
  directory_ = &directory;
  own_ = own;
  // A socket's address has room for some hundred characters, and the directory's path may be longer.
  where_ = "/proc/self/fd/" + std::to_string(directory.fd()) + "/";
  struct stat st {};
  if (stat(where_.c_str(), &st) != 0) where_ = directory.path() + "/";
  fd_ = make(error);
  return fd_ >= 0;
}

/// -1, with one line in `error`, when that fails.
int Mailbox::make(std::string& error) {
  Address address;
  const std::string name = Directory::file_name('s', own_);
  if (!make_address(where_ + name, address)) {
    error = "the path of " + directory_->path() + " is too long for a socket; name another with UROCE_RUNTIME_DIR";
    return -1;
  }
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int asks = asks_for_senders_ ? 1 : 0;
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &asks, sizeof asks);
  // A socket's file gets the permissions of its descriptor, less the umask.
  if (fd >= 0 && fchmod(fd, directory_->file_mode()) == 0 &&
      bind(fd, reinterpret_cast<const sockaddr*>(&address.un), address.bytes) == 0 && directory_->share_socket(name))
    return fd;
  error = "cannot make a socket in " + directory_->path() + ": " + std::strerror(errno) +
          (errno == EMFILE ? "; raise ulimit -n" : "; name another place with UROCE_RUNTIME_DIR");
  if (fd >= 0) close(fd);
  return -1;
}

bool Mailbox::is_there() const {
  struct stat st {};
  return fstatat(directory_->fd(), Directory::file_name('s', own_).c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 ||
         errno != ENOENT;
}

bool Mailbox::open_again(std::string& error) {
  const int fd = make(error);
  if (fd < 0) return false;
  const bool moved = dup3(fd, fd_, O_CLOEXEC) >= 0;
  if (!moved) error = std::string("cannot make a socket: ") + std::strerror(errno);
  close(fd);
  return moved;
}

Mailbox::Sent Mailbox::send(MemberId to, const Letter& letter, const LetterFds& fds) const {
  const KeptErrno kept;
  Address address;
  if (!make_address(where_ + Directory::file_name('s', to), address)) return Sent::kGone;
  iovec bytes{const_cast<Letter*>(&letter), sizeof letter};
  msghdr message{};
  message.msg_name = &address.un;
  message.msg_namelen = address.bytes;
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
  if (fds.base >= 0 && fds.lane >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(kFdsMax * sizeof(int));
    const int both[kFdsMax] = {fds.base, fds.lane};
    std::memcpy(CMSG_DATA(header), both, sizeof both);
  }
  const NoCancel in_a_turn;
  if (sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::kYes;
  // The path is one of /proc: it ends at a root directory that the process has changed, and after a change of its user.
  struct stat st {};
  const std::string name = Directory::file_name('s', to);
  const bool there = (errno == ENOENT || errno == EACCES) &&
                     fstatat(directory_->fd(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode);
  const int error = there ? send_from_inside(directory_->fd(), name, fd_, message) : errno;
  if (error == 0) return Sent::kYes;
  if (there && (error == EPERM || error == ENOSYS)) return Sent::kBarred;
  // Where this process has lost the right to, looking into the directory says so (Directory::barred).
  return error == ECONNREFUSED || error == ENOENT || error == EACCES ? Sent::kGone : Sent::kFull;
}

std::optional<Letter> Mailbox::receive(LetterFds& fds, LostLetters& lost) const {
  const KeptErrno kept;
  for (int i = 0; i < kBadLetters; i++) {
    Letter letter;
    iovec bytes{&letter, sizeof letter};
    alignas(cmsghdr) uint8_t control[kSenderBytes + CMSG_SPACE(kFdsMax * sizeof(int))];
    Address sender;
    msghdr message{};
    message.msg_name = &sender.un;
    message.msg_namelen = sizeof sender.un;
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control - (asks_for_senders_ ? 0 : kSenderBytes);
    const ssize_t length = recvmsg(fd_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0) return std::nullopt;
    int received[kFdsMax] = {-1, -1};
    const size_t count = take_fds(message, received);
    // There is room for as many descriptors as a letter has, so if all of them came, the letter had too many.
    lost.for_descriptors |= (message.msg_flags & MSG_CTRUNC) != 0 && count < kFdsMax;
    const bool real = length == sizeof letter && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                      letter.magic == Letter::kMagic && is_from(sender, message.msg_namelen, letter.from);
    lost.for_version |= real && letter.version != Letter::kVersion;
    const bool good = real && letter.version == Letter::kVersion;
    const size_t wanted = letter.kind == Letter::Kind::kHello ? kFdsMax : 0;
    if (good && count == wanted) {
      fds = {received[0], received[1], sender_of(message)};
      return letter;
    }
    for (const int fd : received) {
      if (fd >= 0) close(fd);
    }
  }
  return std::nullopt;
}

void Mailbox::forget() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace uroce::segment
