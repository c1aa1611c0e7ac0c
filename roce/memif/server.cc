#include "memif/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::memif {
namespace {

// How often the sockets are looked at. A handshake takes six looks, and that a client leaves is noticed after one. A
// client that does nothing but connect costs the server only a small part of its time.
constexpr Duration kLook = milliseconds(2);
constexpr Duration kLookHandshaking = microseconds(500);
constexpr unsigned kAcceptsPerLook = 2;
constexpr int kBacklog = 8;

// Room for more descriptors than any message may bring. The kernel closes those for which there is no room, and this
// code those that are too many.
constexpr size_t kDescriptorsRoom = 8;

struct Received {
  ssize_t bytes = 0;  // 0: the client is gone; negative: there is no message
  std::array<uint8_t, kMessageBytes + 1> message{};
  unsigned descriptors = 0;
  std::array<UniqueFd, kDescriptorsRoom> fds;
};

Received receive(int socket) {
  Received received;
  iovec part{received.message.data(), received.message.size()};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(kDescriptorsRoom * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  received.bytes = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received.bytes < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) received.bytes = 0;
    return received;
  }
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count && received.descriptors < kDescriptorsRoom; i++) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof fd, sizeof fd);
      received.fds[received.descriptors++].reset(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) received.descriptors = kDescriptorsRoom + 1;
  return received;
}

/// Does not wait: returns false when the client does not take the message.
bool send(int socket, const MessageBytes& message) {
  return ::send(socket, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(message.size());
}

}  // namespace

std::unique_ptr<Server> Server::listen(const std::string& path, const std::string& interface, std::string& error) {
  std::unique_ptr<Server> server(new Server(path, interface));
  error = server->bind();
  return error.empty() ? std::move(server) : nullptr;
}

std::string Server::bind() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path) {
    return "the path " + path_ + " is too long for a socket: name a shorter directory with UROCE_RUNTIME_DIR";
  }
  std::memcpy(address.sun_path, path_.data(), path_.size());
  listener_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A socket is made with the rights that its descriptor has, less the umask.
  if (!listener_ || fchmod(listener_.get(), 0600) != 0 ||
      ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), kBacklog) != 0) {
    std::string why = "cannot listen on " + path_ + ": " + std::strerror(errno);
    listener_.reset();
    return why;
  }
  return "";
}

Server::~Server() {
  if (connected_) send(socket_.get(), make_disconnect("the server ends"));
  if (listener_) unlink(path_.c_str());
}

void Server::look(Instant now) {
  if (connected_) hear_connected();
  for (size_t i = 0; i < handshakes_.size();) {
    Client& client = *handshakes_[i];
    const bool late = now >= client.until;
    if (late) counters_.given_up++;
    if (!late && hear(client)) {
      i++;
    } else {
      handshakes_.erase(handshakes_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  accept_clients(now);
  next_look_ = now + (handshaking() ? kLookHandshaking : kLook);
}

void Server::accept_clients(Instant now) {
  for (unsigned i = 0; i < kAcceptsPerLook; i++) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (handshakes_.size() == kHandshakes) {
      counters_.given_up++;
      handshakes_.erase(handshakes_.begin());
    }
    auto client = std::make_unique<Client>(Client{std::move(socket), Handshake(interface_), {}, now + kHandshakeTime});
    if (send(client->socket.get(), client->handshake.hello())) handshakes_.push_back(std::move(client));
  }
}

bool Server::hear(Client& client) {
  const Received received = receive(client.socket.get());
  if (received.bytes < 0) return true;
  if (received.bytes == 0) return false;
  const std::span bytes(received.message.data(), static_cast<size_t>(received.bytes));
  return answer(client, client.handshake.on_message(bytes, received.descriptors), received.fds[0].get());
}

bool Server::answer(Client& client, const Handshake::Outcome& outcome, int fd) {
  std::string why = outcome.why;
  switch (outcome.step) {
    case Handshake::Step::kLeave:
      return false;
    case Handshake::Step::kMapRegion:
      why = client.memory.add(fd, outcome.bytes);
      break;
    case Handshake::Step::kConnect:
      if (connected_) why = "somebody is connected already";
      if (why.empty() && connect(client)) return false;  // the handshake is complete
      if (why.empty()) why = "there is no ring where it should be";
      break;
    case Handshake::Step::kAnswer:
    case Handshake::Step::kRefuse:
      break;
  }
  if (why.empty()) return send(client.socket.get(), outcome.reply);
  counters_.refused++;
  news_ = "a client was refused: " + why;
  send(client.socket.get(), make_disconnect(why));
  return false;
}

/// False when its rings are not there. If the client cannot be told that it is connected, the next look finds out that
/// it is gone.
bool Server::connect(Client& client) {
  if (!in_.open(client.memory, client.handshake.ring_to_server()) ||
      !out_.open(client.memory, client.handshake.ring_to_client())) {
    return false;
  }
  memory_ = std::move(client.memory);
  socket_ = std::move(client.socket);
  handshake_ = client.handshake;
  connected_ = true;
  counters_.connected++;
  if (!send(socket_.get(), make_connected(interface_))) leave();
  return true;
}

void Server::hear_connected() {
  const Received received = receive(socket_.get());
  if (received.bytes < 0) return;
  const std::span bytes(received.message.data(), static_cast<size_t>(received.bytes));
  if (received.bytes == 0) return leave();
  const Handshake::Outcome outcome = handshake_.on_message(bytes, received.descriptors);
  if (outcome.step == Handshake::Step::kRefuse) return on_broken(outcome.why.c_str());
  leave();
}

void Server::on_broken(const char* why) {
  counters_.broken++;
  news_ = std::string("the client was disconnected: ") + why;
  send(socket_.get(), make_disconnect(why));
  leave();
}

void Server::leave() {
  connected_ = false;
  socket_.reset();
  in_ = {};
  out_ = {};
  memory_.clear();
}

}  // namespace uroce::memif
