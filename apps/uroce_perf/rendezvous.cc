#include "rendezvous.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace uroce::perf {
namespace {

std::runtime_error failure(const std::string& what) { return std::runtime_error(what + ": " + std::strerror(errno)); }

int accept_one(int listener) {
  return listen(listener, 1) == 0 ? accept4(listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
}

/// Makes one attempt. Returns -1, with errno, when it fails.
int meet(bool listen, const addrinfo& where) {
  const int fd = socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (!listen) {
    if (connect(fd, where.ai_addr, where.ai_addrlen) == 0) return fd;
    const int code = errno;
    close(fd);
    errno = code;
    return -1;
  }
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int peer = bind(fd, where.ai_addr, where.ai_addrlen) == 0 ? accept_one(fd) : -1;
  const int code = errno;
  close(fd);
  errno = code;
  return peer;
}

}  // namespace

Rendezvous::Rendezvous(bool listen, const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string name = host + ":" + std::to_string(port);
  if (const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list); code != 0) {
    throw std::runtime_error("--oob " + name + ": " + gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, freeaddrinfo);
  constexpr int kAttempts = 100;
  for (int attempt = 0; fd_ < 0; attempt++) {
    fd_ = meet(listen, *list);
    if (fd_ >= 0) return;
    if (listen || attempt == kAttempts) throw failure("cannot meet the other side at " + name);
    usleep(100'000);
  }
}

Rendezvous::~Rendezvous() {
  if (fd_ >= 0) close(fd_);
}

void Rendezvous::send_line(const std::string& line) {
  const std::string text = line + "\n";
  if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
    throw failure("the other side has gone");
  }
}

std::string Rendezvous::receive_line() {
  while (true) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    char buffer[512];
    const ssize_t bytes = recv(fd_, buffer, sizeof buffer, 0);
    if (bytes <= 0) throw std::runtime_error("the other side has gone");
    received_.append(buffer, static_cast<size_t>(bytes));
  }
}

bool Rendezvous::readable() const {
  pollfd poller{fd_, POLLIN, 0};
  return !received_.empty() || poll(&poller, 1, 0) > 0;
}

}  // namespace uroce::perf
