#include <algorithm>

#include "base/big_endian.h"
#include "cm/inbound.h"

namespace uroce::cm {

namespace {

/// How long a packet and its acknowledgement may take, as a code.
uint8_t ack_timeout_of(uint8_t ack_delay, uint8_t lifetime) {
  uint8_t timeout = static_cast<uint8_t>(lifetime + 1);
  if (timeout >= ack_delay) {
    timeout = static_cast<uint8_t>(timeout + (ack_delay >= timeout - 1 ? 1 : 0));
  } else {
    timeout = static_cast<uint8_t>(ack_delay + (timeout >= ack_delay - 1 ? 1 : 0));
  }
  return std::min<uint8_t>(timeout, 31);
}

}  // namespace

/// The connection with our ID `id`, if `mad` came from its peer's address to ours.
Connection* InboundReplies::find(uint32_t id, const ReceivedMad& mad) {
  Connection* c = exchanges_.table.find(id);
  if (c == nullptr) {
    exchanges_.counters.drop_unknown_id++;
    return nullptr;
  }
  if (c->peer.ip != mad.src_ip || c->peer.own_ip != mad.dst_ip) {
    exchanges_.counters.drop_wrong_peer++;
    return nullptr;
  }
  return c;
}

bool InboundReplies::fits(const Connection& c, uint32_t peer_id) {
  if (c.peer.id == peer_id && peer_id != 0) return true;
  exchanges_.counters.drop_wrong_peer++;
  return false;
}

/// A peer that confirms a connection unknown here must not believe that it is established.
void InboundReplies::refuse_unknown(uint32_t id, uint32_t peer_id, Answered answered, const ReceivedMad& mad,
                                    const MadHeader& header, Instant now) {
  exchanges_.counters.refused_unknown_id++;
  exchanges_.refuse(mad, header,
                    {.local_id = id,
                     .remote_id = peer_id,
                     .answered = answered,
                     .reason = static_cast<uint16_t>(RejReason::kInvalidCommId)},
                    now);
}

void InboundReplies::on_rep(const ReceivedMad& mad, const MadHeader& header, Instant now) {
  Rep rep = decode_rep(mad.bytes);
  if (exchanges_.table.find(rep.remote_id) == nullptr) {
    return refuse_unknown(rep.remote_id, rep.local_id, Answered::kRep, mad, header, now);
  }
  Connection* c = find(rep.remote_id, mad);
  if (c == nullptr) return;
  if (c->terms.qp_type == QpType::kXrcSend) rep.qpn = rep.eecn;
  if (c->state == CmState::kReqSent || c->state == CmState::kMraReqReceived) return take_rep(*c, rep, mad, now);
  if (c->state == CmState::kRefused && c->peer.id == 0) {  // we have given up meanwhile
    return refuse_unknown(rep.remote_id, rep.local_id, Answered::kRep, mad, header, now);
  }
  if (c->passive) {
    exchanges_.counters.drop_wrong_state++;
    return;
  }
  if (fits(*c, rep.local_id)) on_repeated_rep(*c, now);
}

void InboundReplies::take_rep(Connection& c, const Rep& rep, const ReceivedMad& mad, Instant now) {
  if (rep.local_id == 0 || rep.qpn < 2 || rep.qpn == 0xffffff) {
    exchanges_.counters.drop_bad_value++;
    return;
  }
  if (Connection* old = exchanges_.table.find_peer_qp(mad.src_ip, rep.ca_guid, rep.qpn)) {
    exchanges_.counters.refused_stale++;
    const Rej rej{.local_id = c.id,
                  .remote_id = rep.local_id,
                  .answered = Answered::kRep,
                  .reason = static_cast<uint16_t>(RejReason::kStaleConnection)};
    exchanges_.send(c.peer.av, encode(c.transaction_id, rej), now);
    exchanges_.doubt(*old, now);
    exchanges_.tell(c, {.type = ConnectionEventType::kRefused, .rej = &rej});
    return exchanges_.rest(c, CmState::kRefused, now);
  }
  c.peer.qpn = rep.qpn;
  c.peer.guid = rep.ca_guid;
  exchanges_.table.index_peer_qp(c);  // first, since there may be no memory: then the REP counts as lost
  c.peer.id = rep.local_id;
  c.terms.peer_psn = rep.starting_psn;
  c.terms.responder_resources = rep.initiator_depth;
  c.terms.initiator_depth = rep.responder_resources;
  c.terms.rnr_retry_count = rep.rnr_retry_count;
  c.terms.ack_timeout = ack_timeout_of(rep.target_ack_delay, static_cast<uint8_t>(c.terms.ack_timeout - 1));
  exchanges_.table.set_state(c, CmState::kRepReceived);
  exchanges_.tell(c, {.type = ConnectionEventType::kRep, .rep = &rep});
}

void InboundReplies::on_repeated_rep(Connection& c, Instant now) {
  exchanges_.counters.duplicates++;
  switch (c.state) {
    case CmState::kRepReceived:
      exchanges_.table.set_state(c, CmState::kMraRepSent);
      [[fallthrough]];
    case CmState::kMraRepSent:
      return exchanges_.send(c.peer.av, exchanges_.mra_of(c), now);
    case CmState::kEstablished:
      return exchanges_.resend(c, now);  // the RTU
    case CmState::kRefused:
      if (c.out.is_answer) exchanges_.resend(c, now);
      return;
    default:
      return;
  }
}

void InboundReplies::on_rtu(const ReceivedMad& mad, const MadHeader& header, Instant now) {
  const Confirmation rtu = decode_confirmation(mad.bytes);
  if (exchanges_.table.find(rtu.remote_id) == nullptr) {
    return refuse_unknown(rtu.remote_id, rtu.local_id, Answered::kOther, mad, header, now);
  }
  Connection* c = find(rtu.remote_id, mad);
  if (c == nullptr || !fits(*c, rtu.local_id)) return;
  switch (c->state) {
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
      return establish(*c, &rtu.private_data);
    case CmState::kWithdrawn:
      return exchanges_.resend(*c, now);  // the DREQ: the peer has taken the REP
    case CmState::kEstablished:
      exchanges_.counters.duplicates++;
      return exchanges_.table.arm(*c, Instant::never());  // the connection is no longer doubted
    default:
      exchanges_.counters.duplicates++;
  }
}

void InboundReplies::establish(Connection& c, const PrivateData* private_data) {
  exchanges_.table.set_state(c, CmState::kEstablished);
  exchanges_.counters.established++;
  exchanges_.tell(c, {.type = ConnectionEventType::kEstablished, .private_data = private_data});
}

void InboundReplies::on_mra(const ReceivedMad& mad, Instant now) {
  const Mra mra = decode_mra(mad.bytes);
  Connection* c = find(mra.remote_id, mad);
  if (c == nullptr) return;
  if (c->state == CmState::kReqSent && mra.answered == Answered::kReq) {
    exchanges_.table.set_state(*c, CmState::kMraReqReceived);
    return exchanges_.wait_longer(*c, mra.service_timeout, now);
  }
  if (!fits(*c, mra.local_id)) return;
  if (c->state == CmState::kRepSent && mra.answered == Answered::kRep) {
    exchanges_.table.set_state(*c, CmState::kMraRepReceived);
    return exchanges_.wait_longer(*c, mra.service_timeout, now);
  }
  exchanges_.counters.drop_wrong_state++;
}

void InboundReplies::on_rej(const ReceivedMad& mad, Instant now) {
  const Rej rej = decode_rej(mad.bytes);
  if (rej.remote_id == 0 && rej.reason == static_cast<uint16_t>(RejReason::kTimeout)) {
    Connection* c = exchanges_.table.find_request(mad.src_ip, rej.local_id, false);
    if (c == nullptr || c->peer.own_ip != mad.dst_ip || load_be64(rej.ari.data()) != c->peer.guid) {
      exchanges_.counters.drop_unknown_id++;
      return;
    }
    return take_rej(*c, rej, now);
  }
  Connection* c = find(rej.remote_id, mad);
  if (c == nullptr) return;
  const bool awaits_first_answer = c->state == CmState::kReqSent || c->state == CmState::kMraReqReceived;
  if (!awaits_first_answer && !fits(*c, rej.local_id)) return;
  take_rej(*c, rej, now);
}

/// The peer has no listener for the service. True when it will be asked again.
bool InboundReplies::ask_again(Connection& c, Instant now) {
  if (c.found_nobody == kAskAgainAfter.size() || c.out.retries_left == 0) return false;
  exchanges_.table.arm(c, now + kAskAgainAfter[c.found_nobody++]);
  exchanges_.counters.asked_again++;
  return true;
}

void InboundReplies::take_rej(Connection& c, const Rej& rej, Instant now) {
  const bool found_nobody = rej.reason == static_cast<uint16_t>(RejReason::kInvalidServiceId);
  if (c.state == CmState::kReqSent && found_nobody && ask_again(c, now)) return;
  switch (c.state) {
    case CmState::kReqSent:
    case CmState::kMraReqReceived:
    case CmState::kReqReceived:
    case CmState::kMraReqSent:
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
      exchanges_.tell(c, {.type = ConnectionEventType::kRefused, .rej = &rej});
      if (rej.reason == static_cast<uint16_t>(RejReason::kStaleConnection)) return exchanges_.enter_timewait(c, now);
      c.out.is_answer = false;
      return exchanges_.rest(c, CmState::kRefused, now);
    case CmState::kRepReceived:
    case CmState::kMraRepSent:
    case CmState::kEstablished:
      exchanges_.tell(
          c, {.type = exchanges_.is_doubted(c) ? ConnectionEventType::kDisconnected : ConnectionEventType::kRefused,
              .rej = &rej});
      return exchanges_.enter_timewait(c, now);
    case CmState::kDreqSent:
      exchanges_.tell(c, {.type = ConnectionEventType::kDisconnected});
      return exchanges_.enter_timewait(c, now);
    case CmState::kWithdrawn:
      c.out.is_answer = false;
      return exchanges_.rest(c, CmState::kRefused, now);
    default:
      exchanges_.counters.drop_wrong_state++;
  }
}

void InboundReplies::on_dreq(const ReceivedMad& mad, const MadHeader& header, Instant now) {
  const Dreq dreq = decode_dreq(mad.bytes);
  if (exchanges_.table.find(dreq.remote_id) == nullptr) {  // ended here long ago: let it end at the peer, too
    exchanges_.counters.drop_unknown_id++;
    return answer_dreq(dreq, mad, header, now);
  }
  Connection* c = find(dreq.remote_id, mad);
  if (c == nullptr) return;
  if (c->state == CmState::kIdle || c->state == CmState::kRefused) return answer_dreq(dreq, mad, header, now);
  if (!fits(*c, dreq.local_id)) return;
  if (dreq.remote_qpn != c->terms.qpn) {
    exchanges_.counters.drop_wrong_peer++;
    return;
  }
  take_dreq(*c, dreq, mad, header, now);
}

void InboundReplies::answer_dreq(const Dreq& dreq, const ReceivedMad& mad, const MadHeader& header, Instant now) {
  const auto way = exchanges_.way_back(mad);
  const Confirmation drep{.local_id = dreq.remote_id, .remote_id = dreq.local_id};
  if (way) exchanges_.send(way->av, encode_drep(header.transaction_id, drep), now);
}

void InboundReplies::take_dreq(Connection& c, const Dreq& dreq, const ReceivedMad& mad, const MadHeader& header,
                               Instant now) {
  switch (c.state) {
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
    case CmState::kEstablished:
      c.transaction_id = header.transaction_id;
      exchanges_.table.set_state(c, CmState::kDreqReceived);
      exchanges_.tell(c, {.type = ConnectionEventType::kDisconnected, .private_data = &dreq.private_data});
      if (c.owner == nullptr) exchanges_.send_drep(c, now);
      return;
    case CmState::kDreqSent:
      c.transaction_id = header.transaction_id;
      exchanges_.tell(c, {.type = ConnectionEventType::kDisconnected, .private_data = &dreq.private_data});
      return exchanges_.send_drep(c, now);
    case CmState::kTimewait:
    case CmState::kWithdrawn:
      exchanges_.counters.duplicates++;
      return answer_dreq(dreq, mad, header, now);
    case CmState::kDreqReceived:
      exchanges_.counters.duplicates++;
      return;
    default:
      exchanges_.counters.drop_wrong_state++;
  }
}

void InboundReplies::on_drep(const ReceivedMad& mad, Instant now) {
  const Confirmation drep = decode_confirmation(mad.bytes);
  Connection* c = find(drep.remote_id, mad);
  if (c == nullptr || !fits(*c, drep.local_id)) return;
  if (c->state == CmState::kWithdrawn) {
    c->out.is_answer = false;
    return exchanges_.rest(*c, CmState::kRefused, now);
  }
  if (c->state != CmState::kDreqSent) {
    exchanges_.counters.drop_wrong_state++;
    return;
  }
  exchanges_.tell(*c, {.type = ConnectionEventType::kDisconnected, .private_data = &drep.private_data});
  exchanges_.enter_timewait(*c, now);
}

void InboundReplies::on_lost(Connection& c, Instant now) {
  switch (c.state) {
    case CmState::kReqReceived:
    case CmState::kMraReqSent:
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
      exchanges_.counters.ended_for_peer++;
      return take_rej(c, {.reason = static_cast<uint16_t>(RejReason::kTimeout)}, now);
    case CmState::kRepReceived:
    case CmState::kMraRepSent:
      exchanges_.counters.ended_for_peer++;
      return take_rej(c, {.reason = static_cast<uint16_t>(RejReason::kConsumer)}, now);
    case CmState::kEstablished:
    case CmState::kDreqSent:
      exchanges_.counters.ended_for_peer++;
      exchanges_.tell(c, {.type = ConnectionEventType::kDisconnected});
      return exchanges_.enter_timewait(c, now);
    case CmState::kDreqReceived:  // the program knows; the peer no longer waits for the DREP
      return exchanges_.enter_timewait(c, now);
    case CmState::kWithdrawn:
      c.out.is_answer = false;
      return exchanges_.rest(c, CmState::kRefused, now);
    default:  // resting, or of SIDR, where the requester gives up by itself
      return;
  }
}

void InboundReplies::on_lap(const ReceivedMad& mad, const MadHeader& header, Instant now) {
  const Lap lap = decode_lap(mad.bytes);
  Connection* c = find(lap.remote_id, mad);
  if (c == nullptr || !fits(*c, lap.local_id)) return;
  if (c->state != CmState::kEstablished || lap.remote_qpn != c->terms.qpn) {
    exchanges_.counters.drop_wrong_state++;
    return;
  }
  exchanges_.counters.path_changes_refused++;
  const Apr apr{.local_id = c->id, .remote_id = c->peer.id, .status = kAprUnsupported};
  exchanges_.send(c->peer.av, encode(header.transaction_id, apr), now);
}

void InboundReplies::on_sidr_rep(const ReceivedMad& mad, Instant now) {
  const SidrRep reply = decode_sidr_rep(mad.bytes);
  Connection* c = find(reply.request_id, mad);
  if (c == nullptr) return;
  if (c->state != CmState::kSidrReqSent || reply.service_id != c->service_id) {
    exchanges_.counters.drop_wrong_state++;
    return;
  }
  if (reply.status == static_cast<uint8_t>(SidrStatus::kUnsupported) && ask_again(*c, now)) return;
  exchanges_.table.set_state(*c, CmState::kIdle);
  exchanges_.tell(*c, {.type = ConnectionEventType::kSidrRep, .sidr_rep = &reply});
}

}  // namespace uroce::cm
