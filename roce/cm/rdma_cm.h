// Connections by IP address and port: the communication manager that the kernel's rdma_cm is for librdmacm. On the
// wire these are the CM's messages (connection_manager.h) with the address header of Annex A11 in their private
// data.
//
// Sans-I/O: management datagrams and time come in; datagrams leave through `Services`, events through an `EventSink`.
// It has one owner at a time, the one that owns the engine beside it. Functions that return an int return 0 or an
// errno, as the kernel's command does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "cm/counters.h"
#include "cm/services.h"
#include "cm/values.h"
#include "uroce/time.h"

namespace uroce::cm {

inline constexpr uint32_t kIdNumberBits = 20;

/// Limits of the state that peers may make this program keep.
struct CmLimits {
  uint32_t pending_requests = 32768;         // requests whose connection is not established yet, of all listeners
  uint32_t pending_per_listener = 16384;     // of one
  uint32_t resting_connections = 65536;      // ended, but remembered for late datagrams (timewait)
  uint32_t ids = (1u << kIdNumberBits) - 1;  // of the program itself
};

/// Options that an Id takes before it is bound.
enum class IdOption : uint8_t { kReuseAddr, kAfOnly };

/// A program that is gone: the addresses that it had, and the communication IDs that it chose.
struct LostPeer {
  std::function<bool(const IpAddress& ip, const IpAddress& from)> was_at;  // as seen from this address of ours
  std::function<bool(uint32_t communication_id)> drew;
};

struct IdState;    // id_state.h
class RdmaCmImpl;  // rdma_cm_impl.h

/// An rdma_cm_id. Owned by the RdmaCm; valid until destroyed. Its attributes:
class Id {
 public:
  Id(PortSpace port_space, QpType qp_type, void* user);
  ~Id();

  PortSpace port_space() const;
  QpType qp_type() const;
  const SocketAddress& local() const;   // family kNone: not bound
  const SocketAddress& remote() const;  // family kNone: not resolved
  /// Bound to the device (a source address is known that is not any).
  bool has_device() const;
  /// Bound to the device, and not used since.
  bool only_bound() const;
  /// The way of a resolved address or of a request; nullptr: not known.
  const ResolvedRoute* way() const;
  bool route_resolved() const;
  void* user() const;
  void set_user(void* user);

  /// For the parts of connection management only.
  IdState& state() { return *state_; }

 private:
  std::unique_ptr<IdState> state_;
};

/// How far a program that ends has told its peers.
enum class Farewells : uint8_t { kMoreToTell, kUnanswered, kDone };

/// What a list says of an id.
struct ListedId {
  uint32_t number = 0;  // below 2^kIdNumberBits
  PortSpace port_space{};
  QpType qp_type{};
  uint8_t state = 0;  // rdma_cm_state of the kernel
  uint32_t qpn = 0;   // of the connection; 0: none
  SocketAddress local;
  SocketAddress remote;
};

class RdmaCm {
 public:
  RdmaCm(Services& services, EventSink& sink, const CmLimits& limits = {});
  ~RdmaCm();

  Id* create_id(PortSpace port_space, QpType qp_type, void* user);  // nullptr: no room
  /// Ends what is under way: a request that was not accepted is rejected, a connection is torn down (DREQ, repeated
  /// until there is an answer), groups are left. No further event names the Id. The Ids of a listener's requests live
  /// on: the owner of their events destroys them, or goes on with them, as with the kernel.
  void destroy_id(Id* id, Instant now);

  int bind(Id& id, const SocketAddress& address);
  int resolve_addr(Id& id, const SocketAddress* src, const SocketAddress& dst, Duration timeout, Instant now);
  int resolve_route(Id& id, Duration timeout, Instant now);
  int listen(Id& id, int backlog);  // backlog is kept by the caller, which refuses in on_cm_event
  int connect(Id& id, const ConnParam& param, const Ece& ece, Instant now);
  /// `param` nullptr: RTU only (after kConnectResponse). If it fails, the connection is rejected, as by the kernel.
  int accept(Id& id, const ConnParam* param, const Ece& ece, Instant now);
  int reject(Id& id, const PrivateData& private_data, uint8_t reason, Instant now);
  int disconnect(Id& id, Instant now);
  int notify(Id& id, uint32_t event, Instant now);  // IBV_EVENT_COMM_EST
  int init_qp_attr(Id& id, QpState state, QpSettings& settings);

  int set_tos(Id& id, uint8_t tos);
  int set_option(Id& id, IdOption option, bool on);
  int set_ack_timeout(Id& id, uint8_t timeout);

  int join_multicast(Id& id, const SocketAddress& group, bool send_only, void* multicast, Instant now);
  int leave_multicast(Id& id, const void* multicast, Instant now);

  /// Data came for a queue pair in RTR whose RTU has not come yet (the transport's COMM_EST event).
  void on_communication_established(uint32_t qpn, Instant now);
  void on_mad(const ReceivedMad& mad, Instant now);
  void run_timers(Instant now);
  Instant next_timeout() const;
  /// The program ends: its peers are told, up to `most` of them in one call, and again in short intervals until they
  /// answer. To be called until it returns kDone, or as long as the caller wants to.
  Farewells hang_up(Instant now, uint32_t most);
  /// A peer is gone and sent no DREQ for its connections: they end as if it had. Requests to its host whose receiver is
  /// not known yet are sent once more.
  void on_peer_lost(const LostPeer& peer, Instant now);
  const CmCounters& counters() const;
  /// All connections: under way, established, resting.
  size_t connection_count() const;

 private:
  friend void for_each_listed(const RdmaCm& cm, const std::function<void(const ListedId&)>& f);

  std::unique_ptr<RdmaCmImpl> core_;
};

/// Calls `f` for every id that has found the device, or listens on it.
void for_each_listed(const RdmaCm& cm, const std::function<void(const ListedId&)>& f);

}  // namespace uroce::cm
