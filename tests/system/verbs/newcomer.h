// A newcomer among the programs of a machine: it opens the device, meets a peer, and does with it what programs do,
// while the kernel refuses one call of the newcomer's after the other.
#pragma once

#include <infiniband/verbs.h>

#include <functional>

#include "trouble.h"

namespace verbs_test {

/// Neither done nor refused: the peer could not be reached.
constexpr int kUnreached = -1;

/// The other program: a process of its own in the same runtime directory.
class Peer {
 public:
  Peer();
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  struct End {
    uint32_t qpn;
    ibv_gid gid;
  };
  /// Makes the peer connect a queue pair to this one, which then waits for a message.
  End connect(const End& own) const;
  /// The port at which the peer listens.
  static constexpr uint16_t kPort = 7471;
  /// Makes the peer connect to the newcomer, which listens at kOwnPort.
  static constexpr uint16_t kOwnPort = 7472;
  void call_back() const;

 private:
  pid_t process_ = 0;
  int socket_ = -1;
};

/// What a newcomer does. Returns 0, the errno of a refusal, or kUnreached, and leaves nothing behind. It calls
/// `patience` when it has waited for a while: then calls are no longer refused.
struct Story {
  const char* name;
  std::function<int(ibv_context*, const Peer&, const std::function<void()>& patience)> run;
  bool is_long = false;      // lost messages are repeated only after seconds, or there are many calls
  bool looks_first = false;  // looks at the files of /sys first: of those many calls, only some are refused
};

/// Connects RC queue pairs, and sends the peer a message.
int pair_up(ibv_context* context, const Peer& peer, const std::function<void()>& patience);
/// Connects by address and port, and disconnects.
int connect_by_address(ibv_context* context, const Peer& peer, const std::function<void()>& patience);
/// Accepts a connection of the peer's.
int listen_for_peer(ibv_context* context, const Peer& peer, const std::function<void()>& patience);
/// Makes more queue pairs than one block of numbers has.
int take_many_numbers(ibv_context* context, const Peer& peer, const std::function<void()>& patience);

/// From RESET. Returns 0 or an errno.
int bring_to_rts(ibv_qp* qp, const Peer::End& to);
ibv_gid own_gid(ibv_context* context);

}  // namespace verbs_test
