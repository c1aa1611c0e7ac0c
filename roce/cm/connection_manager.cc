#include "cm/connection_manager.h"

#include <cerrno>
#include <vector>

namespace uroce::cm {

void ConnectionManager::send_req(Connection& c, Req req, Instant now) {
  req.local_id = c.id;
  c.service_id = req.service_id;
  protocol_.send_awaiting(c, CmState::kReqSent, encode(c.transaction_id, req), now);
}

void ConnectionManager::send_sidr_req(Connection& c, SidrReq req, Instant now) {
  req.request_id = c.id;
  c.service_id = req.service_id;
  c.out.timeout = code_time(kResponseTimeoutCode);
  protocol_.send_awaiting(c, CmState::kSidrReqSent, encode(c.transaction_id, req), now);
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
  protocol_.send_awaiting(c, CmState::kRepSent, encode(c.transaction_id, rep), now);
  return 0;
}

int ConnectionManager::send_rtu(Connection& c, Instant now) {
  if (c.state != CmState::kRepReceived && c.state != CmState::kMraRepSent) return EINVAL;
  c.out.mad = encode_rtu(c.transaction_id, {.local_id = c.id, .remote_id = c.peer.id, .private_data = {}});
  protocol_.table.set_state(c, CmState::kEstablished);
  protocol_.counters.established++;
  protocol_.resend(c, now);
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
      protocol_.send_and_rest(c, CmState::kRefused, protocol_.rej_of(c, reason, private_data), now);
      return 0;
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
      protocol_.withdraw(c, protocol_.rej_of(c, reason, private_data), now);
      return 0;
    default:
      return EINVAL;
  }
}

int ConnectionManager::send_sidr_rep(Connection& c, SidrRep rep, Instant now) {
  if (c.state != CmState::kSidrReqReceived) return EINVAL;
  rep.request_id = c.peer.id;
  rep.service_id = c.service_id;
  protocol_.send_and_rest(c, CmState::kSidrAnswered, encode(c.transaction_id, rep), now);
  return 0;
}

int ConnectionManager::disconnect(Connection& c, Instant now) {
  if (c.state == CmState::kEstablished) {
    protocol_.send_dreq(c, {}, now);
  } else if (c.state == CmState::kDreqReceived) {
    protocol_.send_drep(c, now);
  } else {
    return EINVAL;
  }
  return 0;
}

int ConnectionManager::establish(Connection& c) {
  if (c.state == CmState::kEstablished) return EISCONN;
  if (c.state != CmState::kRepSent && c.state != CmState::kMraRepReceived) return EINVAL;
  protocol_.counters.established_by_data++;
  replies_.establish(c, nullptr);
  return 0;
}

void ConnectionManager::release(Connection& c, Instant now) {
  c.owner = nullptr;
  if (hang_up(c, now)) return;
  if (c.state == CmState::kSidrReqSent || c.state == CmState::kIdle) protocol_.table.erase(c);
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
  protocol_.table.for_each([&](Connection& c) {
    if (!is_leaving(c.state) || c.out.timeout == kFarewellRetry) return;
    c.out.timeout = kFarewellRetry;
    protocol_.table.arm(c, due);
    due = due + kFarewellSpacing;
  });
}

void ConnectionManager::on_mad(const ReceivedMad& mad, Instant now) {
  protocol_.counters.rx_mads++;
  MadHeader header;
  switch (decode(mad.bytes, header)) {
    case HeaderFault::kNotCm:
      protocol_.counters.drop_not_cm++;
      return;
    case HeaderFault::kUnknownMessage:
      protocol_.counters.drop_unknown_message++;
      return;
    case HeaderFault::kNone:
      break;
  }
  if (mad.src_qpn != 1 || mad.src_ip.is_zero() || mad.src_ip.is_multicast()) {
    protocol_.counters.drop_bad_source++;
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
      protocol_.counters.drop_wrong_state++;  // we never send LAP
  }
}

void ConnectionManager::on_peer_lost(const LostPeer& peer, Instant now) {
  std::vector<uint32_t> concerned;  // a connection that begins to rest may push out another
  protocol_.table.for_each([&](const Connection& c) {
    const bool with_itself = c.peer.id != 0 && protocol_.services.is_own(c.peer.ip) && protocol_.table.find(c.peer.id);
    if (with_itself || !(c.peer.id == 0 || peer.drew(c.peer.id))) return;
    if (peer.was_at(c.peer.ip, c.peer.own_ip)) concerned.push_back(c.id);
  });
  for (const uint32_t id : concerned) {
    Connection* const c = protocol_.table.find(id);
    if (c == nullptr) continue;
    if (c->peer.id != 0) {
      replies_.on_lost(*c, now);
    } else if (c->state == CmState::kReqSent || c->state == CmState::kMraReqReceived ||
               c->state == CmState::kSidrReqSent) {
      protocol_.counters.asked_again++;  // its receiver may be the lost program: then another one answers
      protocol_.resend(*c, now);
    }
  }
}

void ConnectionManager::run_timers(Instant now) {
  while (Connection* c = protocol_.table.take_due(now)) on_timer(*c, now);
}

void ConnectionManager::on_timer(Connection& c, Instant now) {
  switch (c.state) {
    case CmState::kTimewait:
      protocol_.tell(c, {.what = ProtocolEvent::kTimewaitExit});
      protocol_.counters.ended++;
      return protocol_.end(c);
    case CmState::kRefused:
    case CmState::kSidrAnswered:
      return protocol_.end(c);
    default:
      break;
  }
  if (c.out.retries_left == 0) return on_timeout(c, now);
  c.out.retries_left--;
  protocol_.counters.retries++;
  protocol_.table.arm(c, now + c.out.timeout);
  protocol_.resend(c, now);
}

void ConnectionManager::on_timeout(Connection& c, Instant now) {
  protocol_.counters.timeouts++;
  switch (c.state) {
    case CmState::kReqSent:
    case CmState::kMraReqReceived:
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
      protocol_.tell(c, {.what = ProtocolEvent::kTimeout});
      send_rej(c, RejReason::kTimeout, {}, now);
      return;
    case CmState::kDreqSent:
      protocol_.tell(c, {.what = ProtocolEvent::kDreqTimeout});
      return protocol_.enter_timewait(c, now);
    case CmState::kSidrReqSent:
      protocol_.tell(c, {.what = ProtocolEvent::kTimeout});
      return protocol_.end(c);
    case CmState::kWithdrawn:
      return protocol_.end(c);
    case CmState::kEstablished:
      return protocol_.send_dreq(c, {}, now);
    default:
      return;
  }
}

}  // namespace uroce::cm
