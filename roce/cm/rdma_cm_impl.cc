#include "cm/rdma_cm_impl.h"

#include <cerrno>

#include "cm/multicast.h"

namespace uroce::cm {

namespace {

constexpr auto kReady = IdState::Phase::kConnect;

SocketAddress socket_address(const IpAddress& ip, uint16_t port) {
  SocketAddress address;
  address.family = ip.is_v4() ? SocketAddress::Family::kV4 : SocketAddress::Family::kV6;
  address.ip = ip;
  address.port = port;
  return address;
}

/// The address of an InfiniBand service that is no port of a port space.
SocketAddress service_address(const IpAddress& ip, uint64_t service_id) {
  SocketAddress address;
  address.family = SocketAddress::Family::kIb;
  address.ip = ip;
  address.service_id = service_id;
  address.service_id_mask = ~uint64_t{0};
  address.pkey = 0xffff;
  return address;
}

void set_parameters(Event& event, const Req& req) {
  event.connection.responder_resources = req.initiator_depth;
  event.connection.initiator_depth = req.responder_resources;
  event.connection.flow_control = req.flow_control ? 1 : 0;
  event.connection.retry_count = req.retry_count;
  event.connection.rnr_retry_count = req.rnr_retry_count;
  event.connection.srq = req.srq;
  event.connection.qpn = req.qpn;
  event.ece = req.ece;
}

void set_parameters(Event& event, const Rep& rep) {
  event.connection.private_data = rep.private_data;
  event.connection.responder_resources = rep.initiator_depth;
  event.connection.initiator_depth = rep.responder_resources;
  event.connection.flow_control = rep.flow_control ? 1 : 0;
  event.connection.rnr_retry_count = rep.rnr_retry_count;
  event.connection.srq = rep.srq;
  event.connection.qpn = rep.qpn;
  event.ece = rep.ece;
}

void set_datagram(Event& event, IdState& state, const SidrRep& reply) {
  event.is_datagram = true;
  if (reply.status != static_cast<uint8_t>(SidrStatus::kValid)) {
    event.type = EventType::kUnreachable;
    event.status = reply.status;
    return;
  }
  state.qkey = reply.qkey;
  event.type = EventType::kEstablished;
  event.datagram.private_data = reply.private_data;
  event.datagram.av = state.way->av;
  event.datagram.qpn = reply.qpn;
  event.datagram.qkey = reply.qkey;
  event.ece = reply.ece;
}

}  // namespace

RdmaCmImpl::RdmaCmImpl(Services& its_services, EventSink& its_sink, const CmLimits& its_limits)
    : services(its_services),
      sink(its_sink),
      limits(its_limits),
      ports(its_services),
      resolution(its_services, its_sink),
      manager(its_services, *this, its_limits) {}

RdmaCmImpl::~RdmaCmImpl() = default;

/// The next number that no Id has.
uint32_t RdmaCmImpl::free_number() {
  for (;;) {
    const auto number = static_cast<uint32_t>(++numbers_tried_ & ((1u << kIdNumberBits) - 1));
    const bool first_time = numbers_tried_ == number;
    if (first_time || std::none_of(ids_.begin(), ids_.end(),
                                   [number](const auto& entry) { return entry.second->state().number == number; })) {
      return number;
    }
  }
}

Id* RdmaCmImpl::create_id(PortSpace port_space, QpType qp_type, void* user) {
  if (ids_.size() >= limits.ids) return nullptr;
  auto id = std::make_unique<Id>(port_space, qp_type, user);
  id->state().own_psn = Psn(services.random());
  id->state().number = free_number();
  Id* raw = id.get();
  ids_.emplace(raw, std::move(id));
  return raw;
}

void RdmaCmImpl::destroy_id(Id& id, Instant now) {
  IdState& state = id.state();
  resolution.cancel(id);
  leave_all_groups(services, id, now);
  if (state.connection != nullptr) manager.release(*state.connection, now);
  if (state.serial != 0) listeners_.erase(state.serial);
  ports.release(id);
  ids_.erase(&id);
}

void RdmaCmImpl::add_listener(Id& id) {
  id.state().serial = next_serial_++;
  listeners_[id.state().serial] = &id;
}

/// The address header of a request to a port, if its addresses are those of the datagram.
std::optional<CmaHeader> RdmaCmImpl::header_of(const Request& request) const {
  if (!is_port_service(request.service_id)) return std::nullopt;
  const auto header = decode_cma_header(request.private_data.view());
  if (!header) return std::nullopt;
  const bool to_us =
      header->dst == request.mad.dst_ip || (header->dst.is_loopback() && services.is_own(request.mad.src_ip));
  const bool from_peer =
      header->src == request.mad.src_ip || (header->src.is_loopback() && services.is_own(request.mad.src_ip));
  if (!to_us || !from_peer) return std::nullopt;
  return header;
}

Admission RdmaCmImpl::admit(const Request& request) {
  const auto header = header_of(request);
  Id* listener = ports.find_listener(request.service_id, header ? header->dst : request.mad.dst_ip);
  if (listener == nullptr) return {};
  const IdState& state = listener->state();
  if (!header && state.local.family != SocketAddress::Family::kIb) return {};
  if (state.qp_type != request.qp_type) return {.listener = 0, .reason = RejReason::kInvalidTransport};
  return {.listener = state.serial};
}

bool RdmaCmImpl::on_request(Connection& c, const Request& request) {
  const auto found = listeners_.find(c.listener);
  std::optional<ResolvedRoute> way = services.find_route(c.peer.own_ip, c.peer.ip, 0);
  if (found == listeners_.end() || !way) return false;
  Id& listener = *found->second;
  Id* child = create_id(listener.port_space(), request.qp_type, nullptr);
  if (child == nullptr) return false;
  IdState& state = child->state();
  const auto header = header_of(request);
  if (header) {
    state.local = socket_address(header->dst, static_cast<uint16_t>(request.service_id & kServicePortMask));
    state.remote = socket_address(header->src, header->src_port);
  } else {
    state.local = service_address(c.peer.own_ip, request.service_id);
    state.remote = service_address(c.peer.ip, 0);
  }
  if (listener.state().options.tos) c.peer.av.traffic_class = *listener.state().options.tos;
  way->av = c.peer.av;
  state.way = way;
  state.options = listener.state().options;
  state.phase = kReady;
  state.connection = &c;
  c.owner = child;
  bool taken = false;
  tell_request(*child, listener, request, header.has_value(), taken);
  if (taken) return true;
  c.owner = nullptr;
  ids_.erase(child);
  return false;
}

void RdmaCmImpl::tell_request(Id& child, Id& listener, const Request& request, bool has_header, bool& taken) {
  Event event;
  event.type = EventType::kConnectRequest;
  event.id = &child;
  event.listener = &listener;
  const PrivateData data = has_header ? behind_cma_header(request.private_data) : request.private_data;
  if (request.req != nullptr) {
    set_parameters(event, *request.req);
    event.connection.private_data = data;
  } else {
    event.is_datagram = true;
    event.datagram.private_data = data;
  }
  taken = sink.on_cm_event(event);
}

void RdmaCmImpl::on_event(Connection& c, const ConnectionEvent& what) {
  IdState& state = c.owner->state();
  Event event;
  event.id = c.owner;
  switch (what.type) {
    case ConnectionEventType::kRep:
      event.type = EventType::kConnectResponse;
      set_parameters(event, *what.rep);
      break;
    case ConnectionEventType::kEstablished:
      event.type = EventType::kEstablished;
      break;
    case ConnectionEventType::kRefused:
      event.type = EventType::kRejected;
      event.status = what.rej->reason;
      event.connection.private_data = what.rej->private_data;
      break;
    case ConnectionEventType::kDisconnected:
    case ConnectionEventType::kDreqTimeout:
      if (state.phase != kReady) return;
      state.phase = IdState::Phase::kDisconnect;
      event.type = EventType::kDisconnected;
      event.status = what.type == ConnectionEventType::kDreqTimeout ? -ETIMEDOUT : 0;
      break;
    case ConnectionEventType::kTimeout:
      event.type = EventType::kUnreachable;
      event.status = -ETIMEDOUT;
      event.is_datagram = state.qp_type == QpType::kUd;
      break;
    case ConnectionEventType::kTimewaitExit:
      event.type = EventType::kTimewaitExit;
      break;
    case ConnectionEventType::kSidrRep:
      set_datagram(event, state, *what.sidr_rep);
      break;
  }
  sink.on_cm_event(event);
}

}  // namespace uroce::cm
