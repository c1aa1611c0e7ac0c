// A memif server that does not trust its clients: one socket, one client at a time.
//
// DPDK's net_memif trusts what its peer writes, so a malicious peer can crash the process. This server trusts nothing:
// messages (handshake.h), memory (memory.h) and rings (rings.h) are checked, and a fault ends the connection with a
// reason, which the client is told and `take_news` returns. A client costs a bounded number of descriptors and a
// bounded time:
//
// - there are at most kHandshakes handshakes at a time, each for at most kHandshakeTime; a further client replaces the
//   oldest of them;
// - file descriptors are closed at once: memory stays mapped without them, and a client's eventfds are never written
//   to, because that could block the server. So a client has to poll, as DPDK's does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memif/handshake.h"
#include "memif/memory.h"
#include "memif/rings.h"
#include "uroce/time.h"

namespace uroce::memif {

struct ServerCounters {
  uint64_t connected = 0;
  uint64_t refused = 0;   // handshakes that broke the protocol, or came while a client was connected
  uint64_t given_up = 0;  // handshakes that took too long, or made room for another one
  uint64_t broken = 0;    // connected clients that broke the protocol
};

class Server {
 public:
  static constexpr size_t kHandshakes = 4;
  static constexpr Duration kHandshakeTime = milliseconds(1000);

  /// Listens on a socket that only this user may connect to. Returns nullptr, with one line in `error`, when that
  /// fails. `interface` is the name that clients are told.
  static std::unique_ptr<Server> listen(const std::string& path, const std::string& interface, std::string& error);
  /// Tells the client that the connection ends, and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Looks at the sockets if it is time to. Clients come and go only here and in `look`.
  void on_turn(Instant now) {
    if (now >= next_look_) look(now);
  }
  /// Looks at the sockets at once.
  void look(Instant now);
  /// True when a handshake is under way, whose client waits for the next look.
  bool handshaking() const { return !handshakes_.empty(); }

  bool connected() const { return connected_; }
  // To be called only while a client is connected.
  const Memory& memory() const { return memory_; }
  InRing& in() { return in_; }
  OutRing& out() { return out_; }
  /// The client broke the protocol in its rings.
  void on_broken(const char* why);

  const ServerCounters& counters() const { return counters_; }
  /// The last event that is worth logging; "" when there is nothing new.
  std::string take_news() { return std::exchange(news_, {}); }

 private:
  struct Client {
    UniqueFd socket;
    Handshake handshake;
    Memory memory;
    Instant until;
  };

  Server(std::string path, std::string interface) : path_(std::move(path)), interface_(std::move(interface)) {}
  std::string bind();
  void accept_clients(Instant now);
  void hear_connected();
  /// False when the handshake with this client has ended.
  bool hear(Client& client);
  bool answer(Client& client, const Handshake::Outcome& outcome, int fd);
  bool connect(Client& client);
  void leave();

  std::string path_;
  std::string interface_;
  UniqueFd listener_;
  std::vector<std::unique_ptr<Client>> handshakes_;  // oldest first
  Instant next_look_{0};

  bool connected_ = false;
  UniqueFd socket_;
  Handshake handshake_{""};
  Memory memory_;
  InRing in_;
  OutRing out_;

  ServerCounters counters_;
  std::string news_;
};

}  // namespace uroce::memif
