// Connections by IP address and port, as librdmacm makes them. The peer is another endpoint, a verbs program under
// `uroce run`, or any host whose kernel has connection management.
//
//   Connection connection = endpoint->connections().connect(qp, "192.0.2.7", 7471, error);
//
// All calls are made under an Ownership, by the thread that has it. Those that wait (`connect`, `accept`) drive the
// endpoint meanwhile, and give the ownership back between turns, so that other threads may have it. Those that begin
// (`begin_connect`, `begin_accept`) return at once: driving the endpoint, by the program or by its own thread, carries
// them on, and `Connection::state` tells how far they are.
//
// A connection brings its queue pair (RC or UC) from RESET or INIT to RTS. Receives that the peer's first message needs
// are posted before: `QueuePair::initialize` goes to INIT. When the connection ends, by either side, the queue pair
// goes to ERR, and posted requests complete as flushed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "uroce/address.h"
#include "uroce/export.h"
#include "uroce/handle.h"
#include "uroce/time.h"
#include "uroce/types.h"

namespace uroce::rdma {

class QueuePair;

struct ConnectionOptions {
  /// For the peer, which finds them in `Connection::private_data`; copied during the call. At most 56 bytes with
  /// `connect`, 196 with `accept`.
  std::span<const std::byte> private_data{};
  uint32_t access = kRemoteWrite | kRemoteRead | kRemoteAtomic;  // what the peer may do, with a region's key
  uint8_t max_rd_atomic = 16;       // READs and atomics under way, as requester; fewer if the peer takes fewer
  uint8_t max_dest_rd_atomic = 16;  // the same as responder
  uint8_t retry_cnt = 7;            // on both sides that of `connect`; `accept` does not use it
  uint8_t rnr_retry = 7;            // for the peer's queue pair: each side tells it to the other; 7: for ever
  /// How long a call waits. Not set: 10 seconds for an answer; `accept` waits for a peer without a limit.
  std::optional<Duration> patience = std::nullopt;
};

/// The bytes of a value, for `ConnectionOptions::private_data`. The value must live until the call.
template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

enum class ConnectionState : uint8_t {
  kConnecting,
  kEstablished,
  kEnded,  // by either side, or it was never established; `Connection::error` says why
};

/// Either side's end of a connection, which ends with it or with its queue pair, whichever is destroyed first.
class UROCE_API Connection {
 public:
  Connection() = default;  // none
  /// False when there is no connection: none was begun, or it has ended.
  explicit operator bool() const { return held_ != nullptr && state() != ConnectionState::kEnded; }

  ConnectionState state() const;
  /// The peer's private data from its `connect` or `accept`; empty before that. On the wire it has no length: it is
  /// filled up with zeros, to 56 bytes from the side that connects, and to 196 from the side that accepts.
  std::span<const std::byte> private_data() const;
  /// The same as a value; nothing when there are fewer bytes.
  template <typename T>
  std::optional<T> private_data_as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto bytes = private_data();
    if (bytes.size() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  IpAddress peer() const;
  std::string error() const;  // why it ended, one line; "" before that
  /// Ends the connection, and tells the peer. Does nothing if it has ended already.
  void disconnect();

 private:
  friend class Connections;
  friend class Listener;
  Handle<HeldConnection> held_;
};

/// Takes connections at a port. Its destruction rejects those that were not accepted.
class UROCE_API Listener {
 public:
  Listener() = default;  // none
  explicit operator bool() const { return held_ != nullptr; }

  /// Peers that have asked and were not accepted yet.
  uint32_t waiting() const;
  /// The private data of the first of them; empty when there is none.
  std::span<const std::byte> private_data() const;
  /// Waits for a peer, and until the connection is established. On failure it returns none, with one line in `error`.
  Connection accept(QueuePair& qp, std::string& error, const ConnectionOptions& options = {});
  /// Accepts the first peer that waits. None, with one line in `error`, when none does, or when `qp` or the options do
  /// not allow it, in which case the peer still waits. What fails after that refuses the peer, and brings `qp` from
  /// INIT to ERR: the peer asks for what cannot be, or there is no memory.
  Connection begin_accept(QueuePair& qp, std::string& error, const ConnectionOptions& options = {});
  /// Rejects the first peer that waits. False when none does.
  bool reject();

 private:
  friend class Connections;
  Handle<HeldListener> held_;
};

/// Endpoint::connections. Everything that it makes must be destroyed before the endpoint.
class UROCE_API Connections {
 public:
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Connects `qp`, which has no other connection, to the listener at that address ("192.0.2.7", "2001:db8::1"; a
  /// loopback address is this machine) and port, and waits until the connection is established. On failure it returns
  /// none, with one line in `error`.
  Connection connect(QueuePair& qp, std::string_view address, uint16_t port, std::string& error,
                     const ConnectionOptions& options = {});
  Connection begin_connect(QueuePair& qp, std::string_view address, uint16_t port, std::string& error,
                           const ConnectionOptions& options = {});
  /// Listens at all IPv4 addresses, or at `address`, for queue pairs of one type (RC or UC); a request of the other
  /// type is rejected. None, with one line in `error`, when another program of the machine has the port or the address
  /// is not the machine's.
  Listener listen(uint16_t port, std::string& error, std::string_view address = "0.0.0.0", QpType type = QpType::kRc);

 private:
  friend class Endpoint;
  explicit Connections(std::unique_ptr<ConnectionsCore> core);

  std::unique_ptr<ConnectionsCore> core_;
};

}  // namespace uroce::rdma
