#include "cm/rdma_cm.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "cm/multicast.h"
#include "cm/qp_settings.h"
#include "cm/rdma_cm_impl.h"

namespace uroce::cm {

namespace {

using Phase = IdState::Phase;
using Family = SocketAddress::Family;

SocketAddress any_of(Family family) {
  SocketAddress address;
  address.family = family;
  if (family == Family::kV4) address.ip = IpAddress::v4(0);
  return address;
}

/// A destination of "any" means this host.
IpAddress destination(const SocketAddress& dst, const SocketAddress& local) {
  if (!dst.is_any()) return dst.ip;
  if (!local.is_any()) return local.ip;
  if (dst.family == Family::kV4) return IpAddress::v4(0x7f000001);
  IpAddress loopback;
  loopback.bytes[15] = 1;
  return loopback;
}

bool has_header(const IdState& state) { return state.remote.family != Family::kIb; }

uint64_t remote_service(const IdState& state) {
  return has_header(state) ? service_id_of(state.port_space, state.remote.port) : state.remote.service_id;
}

PrivateData request_data(const IdState& state, const PrivateData& data) {
  if (!has_header(state)) return data;
  return with_cma_header({.src_port = state.local.port, .src = state.local.ip, .dst = state.remote.ip}, data);
}

uint8_t mtu_code(uint32_t bytes) {
  return static_cast<uint8_t>(std::countr_zero(std::bit_floor(std::clamp(bytes, 256u, 4096u))) - 7);
}

Req request_of(const IdState& state, const ConnParam& param, const Ece& ece, uint64_t guid) {
  const ResolvedRoute& way = *state.way;
  Req req;
  req.ece = ece;
  req.service_id = remote_service(state);
  req.ca_guid = guid;
  req.qpn = param.qpn;
  req.responder_resources = param.responder_resources;
  req.initiator_depth = param.initiator_depth;
  req.remote_response_timeout = kResponseTimeoutCode;
  req.local_response_timeout = kResponseTimeoutCode;
  const bool xrc = state.qp_type == QpType::kXrcSend;
  req.transport = xrc ? kTransportExtended : state.qp_type == QpType::kUc ? kTransportUc : kTransportRc;
  req.extended_transport = xrc ? kExtendedXrc : 0;
  req.flow_control = param.flow_control != 0;
  req.starting_psn = state.own_psn;
  req.retry_count = std::min<uint8_t>(param.retry_count, 7);
  req.rnr_retry_count = std::min<uint8_t>(param.rnr_retry_count, 7);
  req.path_mtu = mtu_code(way.mtu_bytes);
  req.max_cm_retries = kMaxCmRetries;
  req.srq = param.srq;
  req.path.local_gid = way.source.ip;
  req.path.remote_gid = way.av.dgid;
  req.path.flow_label = way.av.flow_label;
  req.path.traffic_class = way.av.traffic_class;
  req.path.hop_limit = way.av.hop_limit;
  req.path.sl = way.av.sl;
  const uint8_t ack_timeout = state.options.ack_timeout.value_or(0);
  req.path.local_ack_timeout = ack_timeout != 0 ? ack_timeout : kPacketLifetimeCode + 1;
  req.private_data = request_data(state, param.private_data);
  return req;
}

void set_terms(Connection& c, const IdState& state, const Req& req) {
  c.terms.qpn = req.qpn;
  c.terms.path_mtu_bytes = 128u << req.path_mtu;
  c.terms.responder_resources = req.responder_resources;
  c.terms.initiator_depth = req.initiator_depth;
  c.terms.retry_count = req.retry_count;
  c.terms.rnr_retry_count = c.terms.peer_rnr_retry_count = req.rnr_retry_count;
  c.terms.ack_timeout = req.path.local_ack_timeout;
  c.terms.own_psn = state.own_psn;
}

/// rdma_cm_state, as the kernel's lists have it.
uint8_t kernel_state(Phase phase) {
  switch (phase) {
    case Phase::kAddrQuery:
      return 1;
    case Phase::kAddrResolved:
      return 2;
    case Phase::kRouteResolved:
      return 4;
    case Phase::kConnect:
      return 5;
    case Phase::kDisconnect:
      return 6;
    case Phase::kBound:
      return 7;
    case Phase::kListen:
      return 8;
    case Phase::kIdle:
      break;
  }
  return 0;
}

bool is_connection(const IdState& state) { return state.phase == Phase::kConnect && state.connection != nullptr; }

int answer_with(RdmaCmImpl& core, Id& id, const ConnParam* param, const Ece& ece, Instant now) {
  IdState& state = id.state();
  Connection& c = *state.connection;
  const ConnParam given = param != nullptr ? *param : ConnParam{};
  if (state.qp_type == QpType::kUd) {
    if (given.private_data.length > kSidrRepPrivateBytes) return EINVAL;
    if (given.qkey != 0) state.qkey = given.qkey;
    return core.manager.send_sidr_rep(
        c, {.ece = ece, .qpn = given.qpn, .qkey = state.qkey, .private_data = given.private_data}, now);
  }
  if (param == nullptr) return core.manager.send_rtu(c, now);
  if (given.private_data.length > kRepPrivateBytes) return EINVAL;
  const bool xrc = state.qp_type == QpType::kXrcRecv;
  return core.manager.send_rep(c,
                               {.ece = ece,
                                .qpn = xrc ? 0 : given.qpn,
                                .eecn = xrc ? given.qpn : 0,
                                .starting_psn = state.own_psn,
                                .responder_resources = given.responder_resources,
                                .initiator_depth = given.initiator_depth,
                                .target_ack_delay = kTargetAckDelayCode,
                                .flow_control = given.flow_control != 0,
                                .rnr_retry_count = std::min<uint8_t>(given.rnr_retry_count, 7),
                                .srq = xrc || given.srq,
                                .ca_guid = core.services.node_guid(),
                                .private_data = given.private_data},
                               now);
}

}  // namespace

RdmaCm::RdmaCm(Services& services, EventSink& sink, const CmLimits& limits)
    : core_(std::make_unique<RdmaCmImpl>(services, sink, limits)) {}
RdmaCm::~RdmaCm() = default;

Id* RdmaCm::create_id(PortSpace port_space, QpType qp_type, void* user) {
  return core_->create_id(port_space, qp_type, user);
}

void RdmaCm::destroy_id(Id* id, Instant now) { core_->destroy_id(*id, now); }

int RdmaCm::bind(Id& id, const SocketAddress& address) {
  IdState& state = id.state();
  if (state.phase != Phase::kIdle) return EINVAL;
  if (address.family == Family::kNone) return EAFNOSUPPORT;
  if (!address.is_any()) {
    if (address.family == Family::kV6 && address.ip.is_link_local_v6() && address.scope_id == 0) return EINVAL;
    if (!core_->services.is_own(address.ip)) return EADDRNOTAVAIL;
  }
  const bool af_only_before = state.options.af_only;
  state.local = address;
  if (address.family == Family::kV4) state.options.af_only = true;
  if (const int error = core_->ports.bind(id)) {
    state.local = {};
    state.options.af_only = af_only_before;
    return error;
  }
  state.phase = Phase::kBound;
  return 0;
}

int RdmaCm::resolve_addr(Id& id, const SocketAddress* src, const SocketAddress& dst, Duration timeout, Instant now) {
  IdState& state = id.state();
  if (state.phase == Phase::kIdle) {
    const bool has_src = src != nullptr && src->family != Family::kNone;
    if (const int error = bind(id, has_src ? *src : any_of(dst.family))) return error;
  }
  if (state.phase != Phase::kBound || dst.family != state.local.family) return EINVAL;
  const IpAddress target = destination(dst, state.local);
  const std::optional<ResolvedRoute> way = core_->services.find_route(state.local.ip, target, dst.scope_id);
  if (!way) return ENETUNREACH;
  state.remote = dst;
  state.remote.ip = target;
  if (state.local.is_any()) state.local.ip = way->source.ip;
  state.way = way;
  if (state.options.tos) state.way->av.traffic_class = *state.options.tos;
  core_->resolution.start(id, timeout, now);
  return 0;
}

int RdmaCm::resolve_route(Id& id, Duration /*timeout*/, Instant /*now*/) {
  IdState& state = id.state();
  if (state.phase != Phase::kAddrResolved) return EINVAL;
  state.phase = Phase::kRouteResolved;  // the way is the route
  Event event;
  event.type = EventType::kRouteResolved;
  event.id = &id;
  core_->sink.on_cm_event(event);
  return 0;
}

int RdmaCm::listen(Id& id, int /*backlog*/) {
  IdState& state = id.state();
  if (state.phase == Phase::kIdle) {
    if (const int error = bind(id, any_of(Family::kV4))) return error;
  }
  if (state.phase != Phase::kBound) return EINVAL;
  if (const int error = core_->ports.listen(id)) return error;
  state.phase = Phase::kListen;
  core_->add_listener(id);
  return 0;
}

int RdmaCm::connect(Id& id, const ConnParam& param, const Ece& ece, Instant now) {
  IdState& state = id.state();
  if (state.phase != Phase::kRouteResolved) return EINVAL;
  const bool datagram = state.qp_type == QpType::kUd;
  const unsigned room =
      (datagram ? kSidrReqPrivateBytes : kReqPrivateBytes) - (has_header(state) ? kCmaHeaderBytes : 0u);
  if (param.private_data.length > room) return EINVAL;
  Connection& c = core_->manager.create(id);  // needs memory; nothing after it does
  c.terms.qp_type = state.qp_type;
  c.peer.av = state.way->av;
  c.peer.ip = state.way->av.dgid;
  c.peer.own_ip = state.way->source.ip;
  state.connection = &c;
  state.phase = Phase::kConnect;
  if (datagram) {
    const SidrReq req{.service_id = remote_service(state), .private_data = request_data(state, param.private_data)};
    core_->manager.send_sidr_req(c, req, now);
  } else {
    const Req req = request_of(state, param, ece, core_->services.node_guid());
    set_terms(c, state, req);
    core_->manager.send_req(c, req, now);
  }
  return 0;
}

int RdmaCm::accept(Id& id, const ConnParam* param, const Ece& ece, Instant now) {
  if (!is_connection(id.state())) return EINVAL;
  const int error = answer_with(*core_, id, param, ece, now);
  if (error != 0) reject(id, {}, 0, now);  // so that the peer does not wait in vain; this may fail, too
  return error;
}

int RdmaCm::reject(Id& id, const PrivateData& private_data, uint8_t reason, Instant now) {
  IdState& state = id.state();
  if (state.connection == nullptr) return EINVAL;
  if (state.qp_type == QpType::kUd) {
    if (private_data.length > kSidrRepPrivateBytes) return EINVAL;
    return core_->manager.send_sidr_rep(
        *state.connection, {.status = static_cast<uint8_t>(SidrStatus::kRejected), .private_data = private_data}, now);
  }
  if (private_data.length > kRejPrivateBytes) return EINVAL;
  const RejReason why = reason == 0 ? RejReason::kConsumer : RejReason{reason};
  return core_->manager.send_rej(*state.connection, why, private_data, now);
}

int RdmaCm::disconnect(Id& id, Instant now) {
  IdState& state = id.state();
  if (state.connection == nullptr) return EINVAL;
  core_->manager.disconnect(*state.connection, now);  // no error if the connection has ended already
  return 0;
}

Farewells RdmaCm::hang_up(Instant now, uint32_t most) {
  uint32_t told = 0;
  core_->for_each_id([&](Id& id) {
    Connection* const connection = id.state().connection;
    if (told < most && connection != nullptr && core_->manager.hang_up(*connection, now)) told++;
  });
  if (told == 0) told = core_->manager.repeat_last_answers(now);
  if (told >= most) return Farewells::kMoreToTell;
  core_->manager.hasten_farewells(now);
  return core_->manager.leaving() != 0 ? Farewells::kUnanswered : Farewells::kDone;
}

int RdmaCm::notify(Id& id, uint32_t event, Instant /*now*/) {
  IdState& state = id.state();
  if (state.connection == nullptr || event != kEventCommEst) return EINVAL;
  return core_->manager.establish(*state.connection);
}

int RdmaCm::init_qp_attr(Id& id, QpState state, QpSettings& settings) {
  return qp_settings(id.state(), state, settings);
}

int RdmaCm::set_tos(Id& id, uint8_t tos) {
  id.state().options.tos = tos;
  return 0;
}

int RdmaCm::set_option(Id& id, IdOption option, bool on) {
  IdState& state = id.state();
  if (option == IdOption::kReuseAddr) {
    if (state.phase != Phase::kIdle && !(on && state.phase != Phase::kListen)) return EINVAL;
    state.options.reuse_addr = on;
    return 0;
  }
  if (state.phase != Phase::kIdle && state.phase != Phase::kBound) return EINVAL;
  state.options.af_only = on;
  return 0;
}

int RdmaCm::set_ack_timeout(Id& id, uint8_t timeout) {
  const bool asks = id.qp_type() == QpType::kRc || id.qp_type() == QpType::kXrcSend;
  if (!asks || timeout > 31) return EINVAL;
  id.state().options.ack_timeout = timeout;
  return 0;
}

int RdmaCm::join_multicast(Id& id, const SocketAddress& group, bool send_only, void* multicast, Instant now) {
  const Phase phase = id.state().phase;
  if (phase != Phase::kBound && phase != Phase::kAddrResolved) return EINVAL;
  return join_group(core_->services, core_->sink, id, group.ip, send_only, multicast, now);
}

int RdmaCm::leave_multicast(Id& id, const void* multicast, Instant now) {
  return leave_group(core_->services, id, multicast, now);
}

void RdmaCm::on_communication_established(uint32_t qpn, Instant /*now*/) {
  if (Connection* c = core_->manager.find_awaiting(qpn)) core_->manager.establish(*c);
}

void RdmaCm::on_mad(const ReceivedMad& mad, Instant now) { core_->manager.on_mad(mad, now); }

void RdmaCm::on_peer_lost(const LostPeer& peer, Instant now) { core_->manager.on_peer_lost(peer, now); }

void RdmaCm::run_timers(Instant now) {
  core_->resolution.run(now);
  core_->manager.run_timers(now);
}

Instant RdmaCm::next_timeout() const {
  return std::min(core_->resolution.next_timeout(), core_->manager.next_timeout());
}

const CmCounters& RdmaCm::counters() const { return core_->manager.counters(); }
void for_each_listed(const RdmaCm& cm, const std::function<void(const ListedId&)>& f) {
  cm.core_->for_each_id([&](Id& id) {
    const IdState& state = id.state();
    if (!id.has_device() && state.phase != Phase::kListen) return;
    f({.number = state.number,
       .port_space = state.port_space,
       .qp_type = state.qp_type,
       .state = kernel_state(state.phase),
       .qpn = state.connection != nullptr ? state.connection->terms.qpn : 0,
       .local = state.local,
       .remote = state.remote});
  });
}

size_t RdmaCm::connection_count() const { return core_->manager.table().size(); }

}  // namespace uroce::cm
