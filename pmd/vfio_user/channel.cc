#include "pmd/vfio_user/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mqnic::vfio_user {
namespace {

constexpr int kSendPatienceMs = 3000;

}  // namespace

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

bool Channel::wait(short events, int timeout_ms) {
  pollfd entry{socket_.get(), events, 0};
  return poll(&entry, 1, timeout_ms) > 0;
}

/// Reads until `partial_` has `want` bytes. Descriptors are collected; those beyond what a message may have are closed.
Channel::Received Channel::fill(size_t want) {
  while (partial_.size() < want) {
    const size_t have = partial_.size();
    partial_.resize(want);
    iovec part{partial_.data() + have, want - have};
    alignas(cmsghdr) uint8_t control[CMSG_SPACE(kMessageFdsMax * sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const int error = errno;
    partial_.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return Received::kNothing;
    if (got <= 0) return Received::kClosed;
    for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
      if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; i++) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(item) + i * sizeof fd, sizeof fd);
        UniqueFd owned(fd);
        if (fds_.size() < kMessageFdsMax) fds_.push_back(std::move(owned));
      }
    }
  }
  return Received::kMessage;
}

Channel::Received Channel::receive(Message& message, int timeout_ms) {
  for (;;) {
    Received result = fill(sizeof(Header));
    if (result == Received::kMessage) {
      Header header;
      std::memcpy(&header, partial_.data(), sizeof header);
      if (header.bytes < sizeof header || header.bytes > kMessageBytesMax) return Received::kClosed;
      result = fill(header.bytes);
      if (result == Received::kMessage) {
        message.header = header;
        message.body.assign(partial_.begin() + sizeof header, partial_.end());
        message.fds = std::move(fds_);
        fds_.clear();
        partial_.clear();
        return Received::kMessage;
      }
    }
    if (result == Received::kClosed || timeout_ms == 0) return result;
    if (!wait(POLLIN, timeout_ms)) return Received::kNothing;
  }
}

bool Channel::begin_send(const Header& header, std::span<const uint8_t> body, std::span<const int> fds) {
  if (fds.size() > kMessageFdsMax || sending()) return false;
  unsent_.resize(sizeof header + body.size());
  std::memcpy(unsent_.data(), &header, sizeof header);
  std::copy(body.begin(), body.end(), unsent_.begin() + sizeof header);
  for (const int fd : fds) unsent_fds_.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return flush();
}

bool Channel::flush() {
  while (sending()) {
    iovec part{unsent_.data(), unsent_.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) uint8_t control[CMSG_SPACE(kMessageFdsMax * sizeof(int))] = {};
    if (const size_t bytes = unsent_fds_.size() * sizeof(int); bytes != 0) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr* const item = CMSG_FIRSTHDR(&message);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(bytes);
      for (size_t i = 0; i < unsent_fds_.size(); i++) {
        const int fd = unsent_fds_[i].get();
        std::memcpy(CMSG_DATA(item) + i * sizeof fd, &fd, sizeof fd);
      }
    }
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
      unsent_fds_.clear();  // they went with the first byte
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool Channel::send(const Header& header, std::span<const uint8_t> body, std::span<const int> fds) {
  if (!begin_send(header, body, fds)) return false;
  while (sending()) {
    if (!wait(POLLOUT, kSendPatienceMs) || !flush()) return false;
  }
  return true;
}

}  // namespace mqnic::vfio_user
