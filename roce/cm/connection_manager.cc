#include "cm/connection_manager.h"

#include <cerrno>
#include <vector>

namespace uroce::cm {

void ConnectionManager::send_req(Connection& c, Req req, Instant now) {
  req.local_id = c.id;
  c.service_id = req.service_id;
  exchanges_.send_awaiting(c, CmState::kReqSent, encode(c.transaction_id, req), now);
}

void ConnectionManager::send_sidr_req(Connection& c, SidrReq req, Instant now) {
  req.request_id = c.id;
  c.service_id = req.service_id;
  c.out.timeout = code_time(kResponseTimeoutCode);
  exchanges_.send_awaiting(c, CmState::kSidrReqSent, encode(c.transaction_id, req), now);
}

int ConnectionManager::send_rep(Connection& c, Rep rep, Instant now) {
  if (c.state != CmState::kReqReceived && c.state != CmState::kMraReqSent) return EINVAL;
  rep.local_id = c.id;
  rep.remote_id = c.peer.id;
  if (c.terms.other_path_offered) rep.failover_accepted = kFailoverUnsupported;
  c.terms.qpn = c.terms.qp_type == QpType::kXrcRecv ? rep.eecn : rep.qpn;
  c.terms.own_psn = rep.starting_psn;
  c.terms.responder_resources = rep.responder_resources;
  c.terms.initiator_depth = rep.initiator_depth;
  exchanges_.send_awaiting(c, CmState::kRepSent, encode(c.transaction_id, rep), now);
  return 0;
}

int ConnectionManager::send_rtu(Connection& c, Instant now) {
  if (c.state != CmState::kRepReceived && c.state != CmState::kMraRepSent) return EINVAL;
  c.out.mad = encode_rtu(c.transaction_id, {.local_id = c.id, .remote_id = c.peer.id, .private_data = {}});
  exchanges_.table.set_state(c, CmState::kEstablished);
  exchanges_.counters.established++;
  exchanges_.resend(c, now);
  return 0;
}

int ConnectionManager::send_rej(Connection& c, RejReason reason, const PrivateData& private_data, Instant now) {
  switch (c.state) {
    case CmState::kReqSent:
    case CmState::kMraReqReceived:
    case CmState::kReqReceived:
    case CmState::kMraReqSent:
    case CmState::kRepReceived:
    case CmState::kMraRepSent:
      exchanges_.send_and_rest(c, CmState::kRefused, exchanges_.rej_of(c, reason, private_data), now);
      return 0;
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
      exchanges_.withdraw(c, exchanges_.rej_of(c, reason, private_data), now);
      return 0;
    default:
      return EINVAL;
  }
}

int ConnectionManager::send_sidr_rep(Connection& c, SidrRep rep, Instant now) {
  if (c.state != CmState::kSidrReqReceived) return EINVAL;
  rep.request_id = c.peer.id;
  rep.service_id = c.service_id;
  exchanges_.send_and_rest(c, CmState::kSidrAnswered, encode(c.transaction_id, rep), now);
  return 0;
}

int ConnectionManager::disconnect(Connection& c, Instant now) {
  if (c.state == CmState::kEstablished) {
    exchanges_.send_dreq(c, {}, now);
  } else if (c.state == CmState::kDreqReceived) {
    exchanges_.send_drep(c, now);
  } else {
    return EINVAL;
  }
  return 0;
}

int ConnectionManager::establish(Connection& c) {
  if (c.state == CmState::kEstablished) return EISCONN;
  if (c.state != CmState::kRepSent && c.state != CmState::kMraRepReceived) return EINVAL;
  exchanges_.counters.established_by_data++;
  replies_.establish(c, nullptr);
  return 0;
}

void ConnectionManager::release(Connection& c, Instant now) {
  c.owner = nullptr;
  if (hang_up(c, now)) return;
  if (c.state == CmState::kSidrReqSent || c.state == CmState::kIdle) exchanges_.table.erase(c);
}

bool ConnectionManager::hang_up(Connection& c, Instant now) {
  switch (c.state) {
    case CmState::kReqSent:
    case CmState::kMraReqReceived:
      send_rej(c, RejReason::kTimeout, {}, now);
      return true;
    case CmState::kReqReceived:
    case CmState::kMraReqSent:
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
    case CmState::kRepReceived:
    case CmState::kMraRepSent:
      send_rej(c, RejReason::kConsumer, {}, now);
      return true;
    case CmState::kSidrReqReceived:
      send_sidr_rep(c, {.status = static_cast<uint8_t>(SidrStatus::kRejected)}, now);
      return true;
    case CmState::kEstablished:
    case CmState::kDreqReceived:
      disconnect(c, now);
      return true;
    default:  // it is ending already, or the peer does not know of it
      return false;
  }
}

void ConnectionManager::hasten_farewells(Instant now) {
  Instant due = now + kFarewellRetry;
  exchanges_.table.for_each([&](Connection& c) {
    if (!is_leaving(c.state) || c.out.timeout == kFarewellRetry) return;
    c.out.timeout = kFarewellRetry;
    exchanges_.table.arm(c, due);
    due = due + kFarewellSpacing;
  });
}

void ConnectionManager::on_mad(const ReceivedMad& mad, Instant now) {
  exchanges_.counters.rx_mads++;
  MadHeader header;
  switch (decode(mad.bytes, header)) {
    case HeaderFault::kNotCm:
      exchanges_.counters.drop_not_cm++;
      return;
    case HeaderFault::kUnknownMessage:
      exchanges_.counters.drop_unknown_message++;
      return;
    case HeaderFault::kNone:
      break;
  }
  if (mad.src_qpn != 1 || mad.src_ip.is_zero() || mad.src_ip.is_multicast()) {
    exchanges_.counters.drop_bad_source++;
    return;
  }
  dispatch(mad, header, now);
}

void ConnectionManager::dispatch(const ReceivedMad& mad, const MadHeader& header, Instant now) {
  switch (header.attribute) {
    case Attribute::kReq:
      return requests_.on_req(mad, header, now);
    case Attribute::kSidrReq:
      return requests_.on_sidr_req(mad, header, now);
    case Attribute::kMra:
      return replies_.on_mra(mad, now);
    case Attribute::kRej:
      return replies_.on_rej(mad, now);
    case Attribute::kRep:
      return replies_.on_rep(mad, header, now);
    case Attribute::kRtu:
      return replies_.on_rtu(mad, header, now);
    case Attribute::kDreq:
      return replies_.on_dreq(mad, header, now);
    case Attribute::kDrep:
      return replies_.on_drep(mad, now);
    case Attribute::kSidrRep:
      return replies_.on_sidr_rep(mad, now);
    case Attribute::kLap:
      return replies_.on_lap(mad, header, now);
    case Attribute::kApr:
      exchanges_.counters.drop_wrong_state++;  // we never send LAP
  }
}

void ConnectionManager::on_peer_lost(const LostPeer& peer, Instant now) {
  std::vector<uint32_t> concerned;  // a connection that begins to rest may push out another
  exchanges_.table.for_each([&](const Connection& c) {
    const bool with_itself =
        c.peer.id != 0 && exchanges_.services.is_own(c.peer.ip) && exchanges_.table.find(c.peer.id);
    if (with_itself || !(c.peer.id == 0 || peer.drew(c.peer.id))) return;
    if (peer.was_at(c.peer.ip, c.peer.own_ip)) concerned.push_back(c.id);
  });
  for (const uint32_t id : concerned) {
    Connection* const c = exchanges_.table.find(id);
    if (c == nullptr) continue;
    if (c->peer.id != 0) {
      replies_.on_lost(*c, now);
    } else if (c->state == CmState::kReqSent || c->state == CmState::kMraReqReceived ||
               c->state == CmState::kSidrReqSent) {
      exchanges_.counters.asked_again++;  // its receiver may be the lost program: then another one answers
      exchanges_.resend(*c, now);
    }
  }
}

void ConnectionManager::run_timers(Instant now) {
  while (Connection* c = exchanges_.table.take_due(now)) on_timer(*c, now);
}

void ConnectionManager::on_timer(Connection& c, Instant now) {
  switch (c.state) {
    case CmState::kTimewait:
      exchanges_.tell(c, {.type = ConnectionEventType::kTimewaitExit});
      exchanges_.counters.ended++;
      return exchanges_.end(c);
    case CmState::kRefused:
    case CmState::kSidrAnswered:
      return exchanges_.end(c);
    default:
      break;
  }
  if (c.out.retries_left == 0) return on_timeout(c, now);
  c.out.retries_left--;
  exchanges_.counters.retries++;
  exchanges_.table.arm(c, now + c.out.timeout);
  exchanges_.resend(c, now);
}

void ConnectionManager::on_timeout(Connection& c, Instant now) {
  exchanges_.counters.timeouts++;
  switch (c.state) {
    case CmState::kReqSent:
    case CmState::kMraReqReceived:
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
      exchanges_.tell(c, {.type = ConnectionEventType::kTimeout});
      send_rej(c, RejReason::kTimeout, {}, now);
      return;
    case CmState::kDreqSent:
      exchanges_.tell(c, {.type = ConnectionEventType::kDreqTimeout});
      return exchanges_.enter_timewait(c, now);
    case CmState::kSidrReqSent:
      exchanges_.tell(c, {.type = ConnectionEventType::kTimeout});
      return exchanges_.end(c);
    case CmState::kWithdrawn:
      return exchanges_.end(c);
    case CmState::kEstablished:
      return exchanges_.send_dreq(c, {}, now);
    default:
      return;
  }
}

}  // namespace uroce::cm
