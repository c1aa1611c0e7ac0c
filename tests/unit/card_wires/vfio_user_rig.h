// A server in a thread of the test, and a client that speaks in bytes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "pmd/card/vfio_user_server.h"
#include "wire_support.h"

namespace mqnic::card {

/// mqnic-card without the process.
class ServerThread {
 public:
  explicit ServerThread(const std::string& path, const std::string& wire = "loop", const CardConfig& config = {}) {
    std::vector<std::unique_ptr<Wire>> wires;
    wires.push_back(must_make(wire));
    std::string error;
    server_ = VfioUserServer::listen(path, config, std::move(wires), error);
    EXPECT_NE(server_, nullptr) << error;
    thread_ = std::thread([this] { server_->serve([this] { return stop_.load(); }); });
  }
  ~ServerThread() { stop(); }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  /// Ends the server; its report remains.
  CardReport stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    if (server_ != nullptr) report_ = server_->report();
    server_.reset();
    return report_;
  }

 private:
  std::unique_ptr<VfioUserServer> server_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  CardReport report_;
};

using Bytes = std::vector<uint8_t>;

/// False when the other side has closed.
inline bool send_with(int socket, const Bytes& bytes, const std::vector<int>& fds) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(253 * sizeof(int))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(item), fds.data(), fds.size() * sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// Sends the bytes that it is given, and returns what comes back.
class RawClient {
 public:
  explicit RawClient(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << path;
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False when the server has closed.
  bool send(const Bytes& bytes, const std::vector<int>& fds = {}) { return send_with(fd_, bytes, fds); }

  bool pending() {
    pollfd entry{fd_, POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  }
  /// Discards what has come.
  void drain() {
    uint8_t buffer[65536];
    while (recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT) > 0) {
    }
  }

  /// The next whole message; empty when the server has closed, or says nothing for ten seconds.
  Bytes receive() {
    Bytes message = read(16);
    if (message.size() != 16) return {};
    uint32_t size = 0;
    std::memcpy(&size, message.data() + 4, 4);
    const Bytes body = read(size - 16);
    message.insert(message.end(), body.begin(), body.end());
    return message.size() == size ? message : Bytes();
  }
  Bytes exchange(const Bytes& bytes, const std::vector<int>& fds = {}) {
    return send(bytes, fds) ? receive() : Bytes();
  }

  /// True when the server has closed the connection.
  bool closed() {
    uint8_t byte = 0;
    pollfd entry{fd_, POLLIN, 0};
    return poll(&entry, 1, 10'000) == 1 && recv(fd_, &byte, 1, MSG_PEEK) <= 0;
  }

  /// Descriptors that came with the last messages.
  std::vector<vfio_user::UniqueFd> received_fds;

 private:
  Bytes read(size_t want) {
    Bytes bytes(want);
    size_t done = 0;
    while (done < want) {
      pollfd entry{fd_, POLLIN, 0};
      if (poll(&entry, 1, 10'000) != 1) break;
      iovec part{bytes.data() + done, want - done};
      alignas(cmsghdr) uint8_t control[256];
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t got = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) break;
      done += static_cast<size_t>(got);
      for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
        received_fds.emplace_back(fd);
      }
    }
    bytes.resize(done);
    return bytes;
  }

  int fd_;
};

/// A field of `bytes` bytes, little-endian.
struct Field {
  size_t bytes;
  uint64_t value;
};
inline Bytes pack(std::initializer_list<Field> fields) {
  Bytes out;
  for (const Field& field : fields) {
    for (size_t i = 0; i < field.bytes; i++) out.push_back(static_cast<uint8_t>(field.value >> (8 * i)));
  }
  return out;
}

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Bytes text(const std::string& characters) { return {characters.begin(), characters.end()}; }

/// A whole message: header and body.
inline Bytes message(uint16_t id, uint16_t command, const Bytes& body, uint32_t flags = 0, uint32_t error = 0) {
  return pack({{2, id}, {2, command}, {4, 16 + body.size()}, {4, flags}, {4, error}}) + body;
}
inline Bytes reply(uint16_t id, uint16_t command, const Bytes& body) { return message(id, command, body, 1); }
inline Bytes error_reply(uint16_t id, uint16_t command, int error) {
  return message(id, command, {}, 0x21, static_cast<uint32_t>(error));
}

inline Bytes hello() { return message(1, 1, {0, 0, 1, 0, '{', '}', 0}); }

}  // namespace mqnic::card
