// The card model as a process of its own: a vfio-user server on a socket, for one client at a time.
#pragma once

#include <poll.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/host_memory.h"
#include "pmd/card/vfio_user_server_device.h"
#include "pmd/card/wire.h"
#include "pmd/card/wires/wire_set.h"
#include "pmd/vfio_user/channel.h"

namespace mqnic::card {

/// A client that leaves, in whatever way, or that breaks the protocol, leaves a card behind that is as after power-on.
/// A second client at the same time is sent away. One that stalls - does not introduce itself, stops in the middle of a
/// message, does not read its answers - is not waited for: the card goes on, and after kPatienceNs the next client has
/// its turn. Used by one thread.
class VfioUserServer {
 public:
  static constexpr uint64_t kPatienceNs = 3'000'000'000;

  /// Makes the socket, for this user only. A socket that nobody listens on is replaced. nullptr: `error` says why not.
  /// Wires as InlineCard takes them. Throws what Card throws for a build that cannot exist.
  static std::unique_ptr<VfioUserServer> listen(const std::string& socket_path, const CardConfig& config,
                                                std::vector<std::unique_ptr<Wire>> wires, std::string& error);
  /// Removes the socket.
  ~VfioUserServer();
  VfioUserServer(const VfioUserServer&) = delete;
  VfioUserServer& operator=(const VfioUserServer&) = delete;

  /// Works until `stop` says so; it is asked some twenty times a second at least. While there is traffic this thread
  /// polls; without, it sleeps, from some ten microseconds at a time up to half a millisecond, and longer without a
  /// client.
  void serve(const std::function<bool()>& stop);

  /// One look at the socket and one run of the card, without waiting. True: something was done.
  bool turn(uint64_t now_ns);

  const CardReport& report() const { return card_.report(); }
  /// Of the card and of its wires, for a log.
  std::vector<std::string> take_messages();

 private:
  VfioUserServer(const CardConfig& config, std::vector<std::unique_ptr<Wire>> wires);

  std::string bind(const std::string& path);
  bool look_at_sockets(uint64_t now_ns);
  void accept_client();
  bool serve_client();
  bool answer();
  void drop_client();
  /// The client owes us something.
  bool stalled() const;
  void look_at_stall(uint64_t now_ns);
  std::array<pollfd, 2> waited_for() const;
  void sleep(uint64_t ns);

  std::string path_;  // empty: there is no socket yet
  vfio_user::UniqueFd listener_;
  WireSet wires_;
  HostMemory memory_;
  Card card_;
  VfioUserDevice device_;
  std::optional<vfio_user::Channel> channel_;
  vfio_user::Message request_;
  uint64_t next_look_ns_ = 0;
  uint64_t stalled_since_ns_ = 0;  // 0: the client is not stalled
  std::vector<std::string> messages_;
};

}  // namespace mqnic::card
