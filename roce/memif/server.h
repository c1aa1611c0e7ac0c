// The server's side of memif that survives its peers: one socket, one client at a time.
//
// DPDK's net_memif believes what its peer writes, and a peer that wants to ends the process. Here nothing is believed:
// messages (handshake.h), memory (memory.h) and rings (rings.h) are checked, and what is wrong ends the connection with
// a reason that the client is told and `take_news` tells us. A client costs a bounded number of descriptors, and time:
//
// - at most kHandshakes clients are being talked to, each for kHandshakeTime; another one takes the oldest one's place;
// - file descriptors are closed at once: memory stays mapped without, and a client's eventfds are never written to, as
//   that could block us. So a client has to poll, as DPDK's does.
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
  uint64_t refused = 0;   // handshakes that broke the protocol, or came while somebody was connected
  uint64_t given_up = 0;  // handshakes that took too long, or made room for another one
  uint64_t broken = 0;    // connected clients that broke the protocol
};

class Server {
 public:
  static constexpr size_t kHandshakes = 4;
  static constexpr Duration kHandshakeTime = milliseconds(1000);

  /// Listens on a socket for this user only. nullptr and one line in `error` when that cannot be. `interface`: what
  /// clients are told that they are connected to.
  static std::unique_ptr<Server> listen(const std::string& path, const std::string& interface, std::string& error);
  /// Tells the client, and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Looks at the sockets, if it is time to: clients come and go here and nowhere else.
  void on_turn(Instant now) {
    if (now >= next_look_) look(now);
  }
  /// The same at once.
  void look(Instant now);
  /// Somebody is being talked to, who waits for the next look.
  bool handshaking() const { return !handshakes_.empty(); }

  bool connected() const { return connected_; }
  // While somebody is connected.
  const Memory& memory() const { return memory_; }
  InRing& in() { return in_; }
  OutRing& out() { return out_; }
  /// The client broke the protocol in its rings.
  void on_broken(const char* why);

  const ServerCounters& counters() const { return counters_; }
  /// What happened last that somebody might want to know; "" when there is nothing new.
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
  /// False: it is over with this one.
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
