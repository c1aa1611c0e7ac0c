// The card model as a vfio-user server on a socket, for one client at a time.
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
#include "pmd/card/vfio_user_server_dma.h"
#include "pmd/card/wire.h"
#include "pmd/card/wires/wire_set.h"
#include "pmd/vfio_user/channel.h"

namespace mqnic::card {

/// When a client leaves, in whatever way, or breaks the protocol, the card is as after power-on again. A second client
/// at the same time is refused. The server does not wait for a client that stalls, that is, one that does not introduce
/// itself, stops in the middle of a message, or does not read its answers: the card goes on, and after kPatienceNs the
/// next client has its turn. A client that does not share its memory is asked for it by messages. The card stands still
/// until the answer comes, as with a bus that does not answer; the messages of one turn share that patience. Used by
/// one thread.
class VfioUserServer {
 public:
  static constexpr uint64_t kPatienceNs = 3'000'000'000;

  /// Makes the socket, to which only this user may connect. A socket on which nobody listens is replaced. Returns
  /// nullptr when that fails; `error` says why. `wires` are as for InlineCard. Throws what Card throws for a build that
  /// cannot exist.
  static std::unique_ptr<VfioUserServer> listen(const std::string& socket_path, const CardConfig& config,
                                                std::vector<std::unique_ptr<Wire>> wires, std::string& error);
  /// Removes the socket.
  ~VfioUserServer();
  VfioUserServer(const VfioUserServer&) = delete;
  VfioUserServer& operator=(const VfioUserServer&) = delete;

  /// Works until `stop` returns true; `stop` is called at least some twenty times a second. While there is traffic this
  /// thread polls. Otherwise it sleeps for ten microseconds up to half a millisecond at a time, and longer without a
  /// client.
  void serve(const std::function<bool()>& stop);

  /// Looks at the socket once and runs the card once, without waiting. True when something was done.
  bool turn(uint64_t now_ns);

  const CardReport& report() const { return card_.report(); }
  /// Takes the messages of the card and of its wires, for a log.
  std::vector<std::string> take_messages();

 private:
  VfioUserServer(const CardConfig& config, std::vector<std::unique_ptr<Wire>> wires);

  std::string bind(const std::string& path);
  bool look_at_sockets(uint64_t now_ns);
  void accept_client();
  bool serve_client();
  bool answer();
  bool look_at_stop();
  void drop_client();
  /// True while the server waits for something that the client has to send or read.
  bool stalled() const;
  void look_at_stall(uint64_t now_ns);
  std::array<pollfd, 2> waited_for() const;
  void sleep(uint64_t ns);

  std::string path_;  // empty: there is no socket yet
  vfio_user::UniqueFd listener_;
  WireSet wires_;
  HostMemory memory_;
  Card card_;
  DmaMessages dma_;
  VfioUserDevice device_;
  std::optional<vfio_user::Channel> channel_;
  vfio_user::Message request_;
  uint64_t next_look_ns_ = 0;
  uint64_t stalled_since_ns_ = 0;  // 0: the client is not stalled
  std::function<bool()> stop_;
  uint64_t stop_looked_at_ns_ = 0;
  bool stopping_ = false;
  std::vector<std::string> messages_;
};

}  // namespace mqnic::card
