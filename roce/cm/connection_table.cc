#include "cm/connection_table.h"

#include "base/check.h"

namespace uroce::cm {

namespace {

bool awaits_rtu(CmState state) { return state == CmState::kRepSent || state == CmState::kMraRepReceived; }

bool is_datagram(const Connection& c) { return c.terms.qp_type == QpType::kUd; }

}  // namespace

ConnectionTable::ConnectionTable(Services& services, const CmLimits& limits) : services_(services), limits_(limits) {}

Connection& ConnectionTable::create(Id* owner) {
  auto connection = std::make_unique<Connection>();
  do {
    connection->id = services_.draw_communication_id();
  } while (connection->id == 0 || connections_.contains(connection->id));
  connection->owner = owner;
  connection->transaction_id = (uint64_t{services_.random()} << 32) | connection->id;
  Connection& c = *connection;
  connections_.emplace(c.id, std::move(connection));
  return c;
}

void ConnectionTable::erase(Connection& c) {
  set_state(c, CmState::kIdle);
  connections_.erase(c.id);
}

Connection* ConnectionTable::find(uint32_t id) {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.get();
}

Connection* ConnectionTable::find_request(const IpAddress& peer, uint32_t peer_id, bool datagram) {
  const auto it = by_request_.find({peer, peer_id, datagram});
  return it == by_request_.end() ? nullptr : it->second;
}

Connection* ConnectionTable::find_peer_qp(const IpAddress& peer, uint64_t guid, uint32_t qpn) {
  const auto it = by_peer_qp_.find({peer, guid, qpn});
  return it == by_peer_qp_.end() ? nullptr : it->second;
}

Connection* ConnectionTable::find_awaiting(uint32_t qpn) { return awaiting_.last_of(qpn); }

void ConnectionTable::index_request(Connection& c) {
  c.known_by_request = by_request_.emplace(RequestKey{c.peer.ip, c.peer.id, is_datagram(c)}, &c).second;
  ensure(c.known_by_request, "a request is looked up before it is kept");
}

void ConnectionTable::index_peer_qp(Connection& c) {
  c.known_by_qp = by_peer_qp_.emplace(QpKey{c.peer.ip, c.peer.guid, c.peer.qpn}, &c).second;
  ensure(c.known_by_qp, "a peer's queue pair is looked up before it is kept");
}

void ConnectionTable::forget_request(Connection& c) {
  if (!c.known_by_request) return;
  by_request_.erase({c.peer.ip, c.peer.id, is_datagram(c)});
  c.known_by_request = false;
}

void ConnectionTable::forget_peer_qp(Connection& c) {
  if (!c.known_by_qp) return;
  by_peer_qp_.erase({c.peer.ip, c.peer.guid, c.peer.qpn});
  c.known_by_qp = false;
}

ConnectionTable::Room ConnectionTable::room_for_request(uint64_t listener) const {
  if (pending_ >= limits_.pending_requests) return Room::kAllFull;
  const auto it = pending_of_.find(listener);
  return it != pending_of_.end() && it->second >= limits_.pending_per_listener ? Room::kListenerFull : Room::kYes;
}

void ConnectionTable::count_pending(const Connection& c, bool more) {
  if (more) {
    pending_of_[c.listener]++;  // first, since there may be no memory
    pending_++;
    return;
  }
  pending_--;
  const auto it = pending_of_.find(c.listener);
  if (--it->second == 0) pending_of_.erase(it);
}

void ConnectionTable::set_state(Connection& c, CmState state) {
  const CmState before = c.state;
  if (is_pending(before) != is_pending(state)) count_pending(c, is_pending(state));
  arm(c, Instant::never());
  leaving_ += static_cast<size_t>(is_leaving(state)) - static_cast<size_t>(is_leaving(before));
  if (awaits_rtu(before) && !awaits_rtu(state)) awaiting_.leave(c.awaiting);
  if (awaits_rtu(state) && !awaits_rtu(before)) awaiting_.enter(c.awaiting, c.terms.qpn, c);
  if (is_resting(before)) resting_.leave(c.rest);
  if (is_resting(state)) resting_.enter(c.rest, next_rest_++, c);
  if (is_resting(state) || state == CmState::kIdle) forget_peer_qp(c);
  if (state == CmState::kIdle) forget_request(c);
  c.state = state;
}

void ConnectionTable::arm(Connection& c, Instant deadline) noexcept {
  c.deadline = deadline;
  if (deadline == Instant::never()) {
    timers_.leave(c.timer);
  } else {
    timers_.enter(c.timer, deadline, c);
  }
}

Instant ConnectionTable::next_timeout() const { return timers_.empty() ? Instant::never() : timers_.first_key(); }

Connection* ConnectionTable::take_due(Instant now) {
  if (timers_.empty() || timers_.first_key() > now) return nullptr;
  Connection* c = timers_.first();
  arm(*c, Instant::never());
  return c;
}

Connection* ConnectionTable::over_the_limit() {
  return resting_.size() > std::max(limits_.resting_connections, 1u) ? resting_.first() : nullptr;
}

}  // namespace uroce::cm
