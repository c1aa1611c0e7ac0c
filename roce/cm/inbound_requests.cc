#include <new>
#include <optional>

#include "cm/inbound.h"

namespace uroce::cm {

namespace {

/// What is wrong with the fields of a REQ, for any service.
std::optional<RejReason> check_req(const Req& req, const ReceivedMad& mad) {
  const bool xrc = req.transport == kTransportExtended && req.extended_transport == kExtendedXrc;
  const bool plain = req.transport <= kTransportUc && req.extended_transport == 0;
  if (!plain && !xrc) return RejReason::kInvalidTransport;
  if (req.path.local_gid != mad.src_ip || req.path.remote_gid != mad.dst_ip) return RejReason::kInvalidGid;
  if (req.path_mtu < 1 || req.path_mtu > 5) return RejReason::kInvalidMtu;
  if (req.qpn < 2 || req.qpn == 0xffffff || req.rdc_exists) return RejReason::kUnsupported;
  return std::nullopt;
}

void take_terms(Connection& c, const Req& req) {
  c.peer.qpn = req.qpn;
  c.peer.guid = req.ca_guid;
  c.peer.av.traffic_class = req.path.traffic_class;
  c.peer.av.flow_label = req.path.flow_label;
  c.peer.av.sl = req.path.sl;
  if (req.path.hop_limit != 0) c.peer.av.hop_limit = req.path.hop_limit;
  c.terms.peer_psn = req.starting_psn;
  c.terms.path_mtu_bytes = 128u << req.path_mtu;
  c.terms.responder_resources = req.initiator_depth;
  c.terms.initiator_depth = req.responder_resources;
  c.terms.retry_count = req.retry_count;
  c.terms.rnr_retry_count = c.terms.peer_rnr_retry_count = req.rnr_retry_count;
  c.terms.ack_timeout = std::max<uint8_t>(req.path.local_ack_timeout, 1);
  c.terms.other_path_offered = req.has_alternate_path;
  c.out.max_retries = req.max_cm_retries;
  c.out.timeout = code_time(std::clamp(req.local_response_timeout, kMinResponseCode, kMaxResponseCode));
}

/// The type of the responder's queue pair; the request was checked.
QpType responder_type(const Req& req) {
  if (req.transport == kTransportExtended) return QpType::kXrcRecv;
  return req.transport == kTransportRc ? QpType::kRc : QpType::kUc;
}

}  // namespace

/// Keeps the request. One without room or memory counts as lost: the peer repeats it.
template <typename Fill>
void InboundRequests::keep(const Request& request, uint64_t listener, uint32_t peer_id, const MadHeader& header,
                           const AddressVector& av, Fill fill) {
  exchanges_.counters.requests++;
  Connection& c = exchanges_.table.create(nullptr);
  try {
    c.transaction_id = header.transaction_id;
    c.service_id = request.service_id;
    c.passive = true;
    c.listener = listener;
    c.peer = {.av = av, .ip = request.mad.src_ip, .own_ip = request.mad.dst_ip, .id = peer_id};
    c.peer.av.traffic_class = request.mad.traffic_class;
    c.terms.qp_type = request.qp_type;
    exchanges_.table.index_request(c);
    fill(c);
    if (exchanges_.user.on_request(c, request)) return;
    exchanges_.counters.drop_backlog_full++;
  } catch (const std::bad_alloc&) {
    exchanges_.table.erase(c);
    throw;
  }
  exchanges_.table.erase(c);
}

void InboundRequests::on_req(const ReceivedMad& mad, const MadHeader& header, Instant now) {
  const Req req = decode_req(mad.bytes);
  if (req.local_id == 0) {
    exchanges_.counters.drop_bad_value++;
    return;
  }
  if (Connection* c = exchanges_.table.find_request(mad.src_ip, req.local_id, false)) {
    return on_repeated_req(*c, req, mad, header, now);
  }
  if (const auto fault = check_req(req, mad)) {
    exchanges_.counters.refused_malformed++;
    return refuse(req, *fault, mad, header, now);
  }
  if (Connection* old = exchanges_.table.find_peer_qp(mad.src_ip, req.ca_guid, req.qpn)) {
    return on_stale(*old, req, mad, header, now);
  }
  const Request request{.mad = mad,
                        .service_id = req.service_id,
                        .qp_type = responder_type(req),
                        .private_data = req.private_data,
                        .req = &req};
  const Admission admission = exchanges_.user.admit(request);
  if (admission.listener == 0) {
    exchanges_.counters.refused_no_service++;
    return refuse(req, admission.reason, mad, header, now);
  }
  if (!has_room(admission.listener)) return;
  const auto way = exchanges_.way_back(mad);
  if (!way) return;
  if ((128u << req.path_mtu) > way->mtu_bytes) {
    exchanges_.counters.refused_malformed++;
    return refuse(req, RejReason::kInvalidMtu, mad, header, now);
  }
  keep(request, admission.listener, req.local_id, header, way->av, [&](Connection& c) {
    take_terms(c, req);
    exchanges_.table.index_peer_qp(c);
    exchanges_.table.set_state(c, CmState::kReqReceived);
  });
}

void InboundRequests::on_sidr_req(const ReceivedMad& mad, const MadHeader& header, Instant now) {
  const SidrReq req = decode_sidr_req(mad.bytes);
  if (Connection* c = exchanges_.table.find_request(mad.src_ip, req.request_id, true)) {
    exchanges_.counters.duplicates++;
    if (c->state == CmState::kSidrAnswered) exchanges_.resend(*c, now);
    return;
  }
  const Request request{
      .mad = mad, .service_id = req.service_id, .qp_type = QpType::kUd, .private_data = req.private_data};
  const Admission admission = exchanges_.user.admit(request);
  if (admission.listener != 0 && !has_room(admission.listener)) return;
  const auto way = exchanges_.way_back(mad);
  if (!way) return;
  if (admission.listener == 0) {
    exchanges_.counters.refused_no_service++;
    const SidrRep refusal{.request_id = req.request_id,
                          .status = static_cast<uint8_t>(SidrStatus::kUnsupported),
                          .service_id = req.service_id};
    return exchanges_.send(way->av, encode(header.transaction_id, refusal), now);
  }
  keep(request, admission.listener, req.request_id, header, way->av,
       [this](Connection& c) { exchanges_.table.set_state(c, CmState::kSidrReqReceived); });
}

/// A repetition, late or not, changes nothing. It is answered again where an answer may have been lost.
void InboundRequests::on_repeated_req(Connection& c, const Req& req, const ReceivedMad& mad, const MadHeader& header,
                                      Instant now) {
  if (req.qpn != c.peer.qpn || req.ca_guid != c.peer.guid || req.starting_psn != c.terms.peer_psn) {
    exchanges_.counters.refused_malformed++;
    return refuse(req, RejReason::kDuplicateCommId, mad, header, now);
  }
  exchanges_.counters.duplicates++;
  switch (c.state) {
    case CmState::kReqReceived:
      exchanges_.table.set_state(c, CmState::kMraReqSent);
      [[fallthrough]];
    case CmState::kMraReqSent:
      return exchanges_.send(c.peer.av, exchanges_.mra_of(c), now);
    case CmState::kRepSent:
    case CmState::kMraRepReceived:
      return exchanges_.resend(c, now);
    case CmState::kRefused:
      if (c.out.is_answer) exchanges_.resend(c, now);
      return;
    case CmState::kWithdrawn:
      return refuse(req, RejReason::kConsumer, mad, header, now);
    case CmState::kTimewait:
      exchanges_.counters.refused_stale++;
      return refuse(req, RejReason::kStaleConnection, mad, header, now);
    default:
      return;
  }
}

/// The peer uses its queue pair anew: it no longer has our old connection with it. Or the request is
/// forged.
void InboundRequests::on_stale(Connection& old, const Req& req, const ReceivedMad& mad, const MadHeader& header,
                               Instant now) {
  exchanges_.counters.refused_stale++;
  refuse(req, RejReason::kStaleConnection, mad, header, now);
  exchanges_.doubt(old, now);
}

void InboundRequests::refuse(const Req& req, RejReason reason, const ReceivedMad& mad, const MadHeader& header,
                             Instant now) {
  Rej rej{.remote_id = req.local_id, .answered = Answered::kReq, .reason = static_cast<uint16_t>(reason)};
  if (reason == RejReason::kInvalidGid) {  // the additional information is the GID that would be valid
    std::memcpy(rej.ari.data(), mad.dst_ip.bytes.data(), 16);
    rej.ari_length = 16;
  }
  exchanges_.refuse(mad, header, rej, now);
}

bool InboundRequests::has_room(uint64_t listener) {
  switch (exchanges_.table.room_for_request(listener)) {
    case ConnectionTable::Room::kYes:
      return true;
    case ConnectionTable::Room::kAllFull:
      exchanges_.counters.drop_requests_full++;
      return false;
    case ConnectionTable::Room::kListenerFull:
      exchanges_.counters.drop_listener_full++;
      return false;
  }
  return false;
}

}  // namespace uroce::cm
