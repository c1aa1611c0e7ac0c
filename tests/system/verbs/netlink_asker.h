// Asks RDMA netlink by bytes.
#pragma once

#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace verbs_test {

using Bytes = std::vector<uint8_t>;

/// An RDMA netlink socket that waits a second for an answer.
class Asker {
 public:
  Asker() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)) {
    const timeval patience{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Asker() { close(fd_); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  int fd() const { return fd_; }
  ssize_t ask(const Bytes& request) const {
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    return sendto(fd_, request.data(), request.size(), 0, reinterpret_cast<sockaddr*>(&kernel), sizeof kernel);
  }
  Bytes receive(int flags = 0) const {
    Bytes answer(70000);
    const ssize_t bytes = recv(fd_, answer.data(), answer.size(), flags);
    answer.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
    return answer;
  }

 private:
  int fd_;
};

inline nlmsghdr header_of(const Bytes& message) {
  nlmsghdr header{};
  if (message.size() >= sizeof header) std::memcpy(&header, message.data(), sizeof header);
  return header;
}

/// The error number behind the header of an acknowledgement or of the end of a list.
inline int error_of(const Bytes& message) {
  int error = 1;
  if (message.size() >= sizeof(nlmsghdr) + sizeof error) {
    std::memcpy(&error, message.data() + sizeof(nlmsghdr), sizeof error);
  }
  return error;
}

inline bool contains(const Bytes& message, const std::string& text) {
  return std::string(message.begin(), message.end()).find(text) != std::string::npos;
}

}  // namespace verbs_test
