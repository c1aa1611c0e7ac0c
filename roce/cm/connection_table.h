// Every connection of a program: found by our communication ID, by the request of a peer that made it, by the peer's
// queue pair; with its timer.
//
// Bounded are the undecided requests (in all, and of one listener) and the resting connections.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "cm/connection.h"
#include "cm/connection_order.h"
#include "cm/counters.h"
#include "cm/rdma_cm.h"

namespace uroce::cm {

class ConnectionTable {
 public:
  ConnectionTable(Services& services, const CmLimits& limits);

  /// In state kIdle, with an ID that no other one has.
  Connection& create(Id* owner);
  void erase(Connection& connection);

  Connection* find(uint32_t id);
  Connection* find_request(const IpAddress& peer, uint32_t peer_id, bool datagram);
  Connection* find_peer_qp(const IpAddress& peer, uint64_t guid, uint32_t qpn);
  /// The connection in which queue pair `qpn` of ours waits for an RTU.
  Connection* find_awaiting(uint32_t qpn);

  /// From now on `find_request` and `find_peer_qp` find the connection.
  void index_request(Connection& connection);
  void index_peer_qp(Connection& connection);

  enum class Room : uint8_t { kYes, kAllFull, kListenerFull };
  Room room_for_request(uint64_t listener) const;

  /// The only way to change a state: indexes, bounds and timers follow. The timer is off afterwards. Needs memory to
  /// count a new request, and for nothing else; without it, nothing has changed.
  void set_state(Connection& connection, CmState state);
  void arm(Connection& connection, Instant deadline) noexcept;
  Instant next_timeout() const;
  /// A connection whose time is up, its timer off; nullptr: none.
  Connection* take_due(Instant now);
  /// The connection that has rested longest, if too many rest; nullptr otherwise.
  Connection* over_the_limit();

  template <typename F>
  void for_each(F&& f) const {
    for (const auto& [id, connection] : connections_) f(*connection);
  }
  size_t size() const { return connections_.size(); }
  size_t pending() const { return pending_; }
  size_t resting() const { return resting_.size(); }
  /// The number of connections whose end the peer has not confirmed.
  size_t leaving() const { return leaving_; }

 private:
  struct RequestKey {
    IpAddress peer;
    uint32_t id;
    bool datagram;
    auto operator<=>(const RequestKey& o) const {
      return std::tie(id, datagram, peer.bytes) <=> std::tie(o.id, o.datagram, o.peer.bytes);
    }
  };
  struct QpKey {
    IpAddress peer;
    uint64_t guid;
    uint32_t qpn;
    auto operator<=>(const QpKey& o) const {
      return std::tie(qpn, guid, peer.bytes) <=> std::tie(o.qpn, o.guid, o.peer.bytes);
    }
  };

  void forget_request(Connection& connection);
  void forget_peer_qp(Connection& connection);
  void count_pending(const Connection& connection, bool more);

  Services& services_;
  const CmLimits limits_;
  std::unordered_map<uint32_t, std::unique_ptr<Connection>> connections_;
  std::map<RequestKey, Connection*> by_request_;
  std::map<QpKey, Connection*> by_peer_qp_;
  ConnectionOrder<uint32_t> awaiting_;  // by our queue pair
  ConnectionOrder<Instant> timers_;
  ConnectionOrder<uint64_t> resting_;  // in the order in which they began to rest
  uint64_t next_rest_ = 1;
  size_t pending_ = 0;
  size_t leaving_ = 0;
  std::unordered_map<uint64_t, uint32_t> pending_of_;
};

}  // namespace uroce::cm
