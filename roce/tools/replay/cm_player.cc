#include "replay/cm_player.h"

#include <algorithm>

#include "base/big_endian.h"
#include "cm/cma_header.h"
#include "mad/mad_fields.h"

namespace uroce::replay {

namespace {

using cm::Attribute;

constexpr uint32_t kTransactionAt = 8;

MadKind kind_of(const CmMad& mad) {
  return static_cast<MadKind>(static_cast<unsigned>(mad.attribute) - kFirstMadAttribute);
}

uint32_t id_of(const cm::MadBytes& bytes, MadKind kind, const char* name) {
  const MadField* field = mad_field(kind, name);
  return field == nullptr ? 0 : static_cast<uint32_t>(get_field(bytes.data() + kMadHeaderBytes, *field));
}

void set_id(cm::MadBytes& bytes, MadKind kind, const char* name, uint64_t value) {
  const MadField* field = mad_field(kind, name);
  if (field != nullptr) set_field(bytes.data() + kMadHeaderBytes, *field, value);
}

bool begins_transaction(Attribute attribute) {
  return attribute == Attribute::kReq || attribute == Attribute::kSidrReq || attribute == Attribute::kDreq ||
         attribute == Attribute::kLap;
}

cm::PrivateData without_zeros(const cm::PrivateData& data) {
  cm::PrivateData shorter = data;
  while (shorter.length > 0 && shorter.bytes[shorter.length - 1u] == 0) shorter.length--;
  return shorter;
}

cm::SocketAddress address_at(const IpAddress& ip, uint16_t port) {
  cm::SocketAddress address;
  address.family = ip.is_v4() ? cm::SocketAddress::Family::kV4 : cm::SocketAddress::Family::kV6;
  address.ip = ip;
  address.port = port;
  return address;
}

cm::PortSpace space_of(uint64_t service_id) { return static_cast<cm::PortSpace>(service_id >> 16); }

}  // namespace

CmPlayer::CmPlayer(const CmExchange& exchange, bool active)
    : exchange_(exchange),
      own_(active ? exchange.active : exchange.passive),
      peer_(active ? exchange.passive : exchange.active),
      manager_(static_cast<cm::Services&>(*this), static_cast<cm::EventSink&>(*this)) {
  now_ = exchange.mads[0].time;
  const CmMad& first = exchange.mads[0];
  if (first.attribute == Attribute::kReq) {
    const cm::Req req = cm::decode_req(first.bytes);
    if (req.path_mtu >= 1 && req.path_mtu <= 5) host_.mtu_bytes = 128u << req.path_mtu;
    if (active) {
      host_.path = req.path;
      host_.guid = req.ca_guid;
    }
  }
  for (const CmMad& mad : exchange.mads) {
    if (mad.from_active != active) continue;
    if (mad.attribute == Attribute::kRep) host_.guid = cm::decode_rep(mad.bytes).ca_guid;
    if (recorded_id_ == 0) recorded_id_ = id_of(mad.bytes, kind_of(mad), "id");
  }
  if (!active) listen();
}

/// Listens, unless the recorded side had no listener for the service.
void CmPlayer::listen() {
  const CmMad& first = exchange_.mads[0];
  const bool datagram = first.attribute == Attribute::kSidrReq;
  for (const CmMad& mad : exchange_.mads) {
    if (mad.from_active) continue;
    const bool nobody = (mad.attribute == Attribute::kRej && cm::decode_rej(mad.bytes).reason == 8) ||
                        (mad.attribute == Attribute::kSidrRep && cm::decode_sidr_rep(mad.bytes).status == 1);
    if (nobody) return;
  }
  const uint64_t service =
      datagram ? cm::decode_sidr_req(first.bytes).service_id : cm::decode_req(first.bytes).service_id;
  const bool uc = !datagram && cm::decode_req(first.bytes).transport == cm::kTransportUc;
  cm::Id* const listener = manager_.create_id(space_of(service),
                                              datagram ? QpType::kUd
                                              : uc     ? QpType::kUc
                                                       : QpType::kRc,
                                              nullptr);
  manager_.bind(*listener, address_at(own_, static_cast<uint16_t>(service)));
  manager_.listen(*listener, 16);
}

void CmPlayer::advance(Instant now) {
  now_ = std::max(now_, now);
  while (manager_.next_timeout() <= now_) manager_.run_timers(now_);
  run_program();
}

uint64_t CmPlayer::transaction_of(uint64_t recorded) const {
  const auto known = transactions_.find(recorded);
  return known == transactions_.end() ? recorded : known->second;
}

void CmPlayer::deliver(const CmMad& mad) {
  cm::MadBytes bytes = mad.bytes;
  const MadKind kind = kind_of(mad);
  if (own_id_ != 0 && id_of(bytes, kind, "peer") == recorded_id_) set_id(bytes, kind, "peer", own_id_);
  if (!begins_transaction(mad.attribute)) {
    store_be64(&bytes[kTransactionAt], transaction_of(load_be64(&bytes[kTransactionAt])));
  }
  manager_.on_mad({.src_ip = peer_,
                   .dst_ip = own_,
                   .vlan_id = 0,
                   .src_qpn = 1,
                   .traffic_class = mad.traffic_class,
                   .hop_limit = mad.hop_limit,
                   .bytes = bytes},
                  now_);
  run_program();
}

/// Takes each Id through the steps to its connection.
void CmPlayer::run_program() {
  while (!events_.empty()) {
    const cm::Event event = events_.front();
    events_.pop_front();
    if (event.type == cm::EventType::kAddrResolved) manager_.resolve_route(*event.id, milliseconds(2000), now_);
    if (event.type == cm::EventType::kRouteResolved) manager_.connect(*event.id, param_, {}, now_);
    if (event.type == cm::EventType::kConnectRequest) id_ = event.id;
  }
}

std::string CmPlayer::begin(const CmMad& mad) {
  const bool datagram = mad.attribute == Attribute::kSidrReq;
  const cm::Req req = datagram ? cm::Req{} : cm::decode_req(mad.bytes);
  const cm::SidrReq question = datagram ? cm::decode_sidr_req(mad.bytes) : cm::SidrReq{};
  const uint64_t service = datagram ? question.service_id : req.service_id;
  const cm::PrivateData& data = datagram ? question.private_data : req.private_data;
  const auto header = cm::is_port_service(service) ? cm::decode_cma_header(data.view()) : std::nullopt;
  if (!header) return "the service is none that an address and a port lead to";
  id_ = manager_.create_id(space_of(service),
                           datagram                            ? QpType::kUd
                           : req.transport == cm::kTransportUc ? QpType::kUc
                                                               : QpType::kRc,
                           nullptr);
  param_.private_data = without_zeros(cm::behind_cma_header(data));
  param_.responder_resources = req.responder_resources;
  param_.initiator_depth = req.initiator_depth;
  param_.flow_control = req.flow_control ? 1 : 0;
  param_.retry_count = req.retry_count;
  param_.rnr_retry_count = req.rnr_retry_count;
  param_.srq = req.srq;
  param_.qpn = req.qpn;
  if (!datagram) manager_.set_ack_timeout(*id_, req.path.local_ack_timeout);
  const cm::SocketAddress from = address_at(own_, header->src_port);
  const int error =
      manager_.resolve_addr(*id_, &from, address_at(peer_, static_cast<uint16_t>(service)), milliseconds(2000), now_);
  run_program();
  return error == 0 ? "" : "the address has no way";
}

/// REP, RTU, SIDR_REP, REJ: the program's answers.
std::string CmPlayer::reply(const CmMad& mad) {
  cm::ConnParam param;
  switch (mad.attribute) {
    case Attribute::kRep: {
      const cm::Rep rep = cm::decode_rep(mad.bytes);
      param.private_data = without_zeros(rep.private_data);
      param.responder_resources = rep.responder_resources;
      param.initiator_depth = rep.initiator_depth;
      param.flow_control = rep.flow_control ? 1 : 0;
      param.rnr_retry_count = rep.rnr_retry_count;
      param.srq = rep.srq;
      param.qpn = rep.qpn;
      return manager_.accept(*id_, &param, {}, now_) == 0 ? "" : "our program cannot accept now";
    }
    case Attribute::kRtu:
      return manager_.accept(*id_, nullptr, {}, now_) == 0 ? "" : "our program has no REP to confirm";
    case Attribute::kSidrRep: {
      const cm::SidrRep answer = cm::decode_sidr_rep(mad.bytes);
      param.private_data = without_zeros(answer.private_data);
      param.qpn = answer.qpn;
      param.qkey = answer.qkey;
      const int error = answer.status == 0 ? manager_.accept(*id_, &param, {}, now_)
                                           : manager_.reject(*id_, param.private_data, 0, now_);
      return error == 0 ? "" : "our program cannot answer now";
    }
    default: {
      const cm::Rej rej = cm::decode_rej(mad.bytes);
      const int error = manager_.reject(*id_, without_zeros(rej.private_data), static_cast<uint8_t>(rej.reason), now_);
      return error == 0 ? "" : "our program cannot reject now";
    }
  }
}

std::string CmPlayer::act(const CmMad& mad) {
  const bool already = std::any_of(sent.begin(), sent.end(), [&](const cm::MadBytes& bytes) {
    return load_be16(&bytes[16]) == static_cast<uint16_t>(mad.attribute);
  });
  if (already) return "";  // connection management does it by itself
  switch (mad.attribute) {
    case Attribute::kReq:
    case Attribute::kSidrReq:
      return begin(mad);
    case Attribute::kMra:
    case Attribute::kLap:
    case Attribute::kApr:
      return "";
    default:
      break;
  }
  if (id_ == nullptr) return "our program heard of no request";
  if (mad.attribute != Attribute::kDreq && mad.attribute != Attribute::kDrep) return reply(mad);
  manager_.disconnect(*id_, now_);
  return "";
}

cm::MadBytes CmPlayer::expected(const CmMad& mad, const cm::MadBytes& ours) {
  cm::MadBytes bytes = mad.bytes;
  const MadKind kind = kind_of(mad);
  if (own_id_ == 0) own_id_ = id_of(ours, kind, "id");
  if (id_of(bytes, kind, "id") == recorded_id_ || id_of(bytes, kind, "id") == 0) {
    set_id(bytes, kind, "id", id_of(ours, kind, "id") == own_id_ ? own_id_ : 0);
  }
  const uint64_t recorded = load_be64(&bytes[kTransactionAt]);
  if (begins_transaction(mad.attribute)) transactions_[recorded] = load_be64(&ours[kTransactionAt]);
  store_be64(&bytes[kTransactionAt], transaction_of(recorded));
  if (mad.attribute == Attribute::kReq || mad.attribute == Attribute::kRep) {
    set_id(bytes, kind, "psn", id_of(ours, kind, "psn"));
  }
  return bytes;
}

void CmPlayer::send_mad(const AddressVector& /*av*/, std::span<const uint8_t, cm::kMadBytes> mad, Instant /*now*/) {
  std::copy(mad.begin(), mad.end(), sent.emplace_back().begin());
}

std::optional<cm::ResolvedRoute> CmPlayer::find_route(const IpAddress& /*src*/, const IpAddress& dst,
                                                      uint32_t /*scope_id*/) {
  cm::ResolvedRoute way;
  way.source.ip = own_;
  way.av.dgid = dst;
  way.av.traffic_class = host_.path.traffic_class;
  way.av.flow_label = host_.path.flow_label;
  way.av.hop_limit = host_.path.hop_limit != 0 ? host_.path.hop_limit : 64;
  way.av.sl = host_.path.sl;
  way.mtu_bytes = host_.mtu_bytes;
  return way;
}

bool CmPlayer::on_cm_event(const cm::Event& event) {
  events_.push_back(event);
  return true;
}

}  // namespace uroce::replay
