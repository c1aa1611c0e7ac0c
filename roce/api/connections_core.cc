#include "api/connections_core.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "cm/cma_header.h"
#include "cm/mad.h"
#include "dpdk/endpoint_cm.h"

namespace uroce::rdma {

namespace {

constexpr const char* kOnlyConnected = "only RC and UC connect";
constexpr size_t kRequestBytes = cm::kReqPrivateBytes - cm::kCmaHeaderBytes;

std::string errno_text(int error) { return std::generic_category().message(error); }

Ending ending_of(const cm::Event& event) {
  if (event.type != cm::EventType::kRejected) return {": does not answer"};
  if (event.status == static_cast<int>(cm::RejReason::kInvalidServiceId)) return {": nobody listens there"};
  if (event.status == static_cast<int>(cm::RejReason::kConsumer)) return {": refused by the program there"};
  return {": refused, reason ", event.status};
}

cm::ConnParam param_of(const Qp& qp, const ConnectionOptions& options) {
  cm::ConnParam param;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(options.private_data.data());
  param.private_data = cm::PrivateData({bytes, options.private_data.size()});
  param.responder_resources = options.max_dest_rd_atomic;
  param.initiator_depth = options.max_rd_atomic;
  param.retry_count = options.retry_cnt;
  param.rnr_retry_count = options.rnr_retry;
  param.qpn = qp.qpn();
  return param;
}

}  // namespace

std::string Ending::line(const std::string& peer) const {
  if (*text == '\0') return {};
  return (names_peer ? peer : std::string()) + text + (reason != 0 ? std::to_string(reason) : std::string());
}

HeldConnection::HeldConnection(ConnectionsCore& its_core, Qp& its_qp, const ConnectionOptions& its_options)
    : core(its_core), qp(&its_qp), options(its_options), param(param_of(its_qp, its_options)) {
  options.private_data = {};
  core.connections_.push_back(this);
}

HeldConnection::~HeldConnection() { core.forget(*this); }

HeldListener::HeldListener(ConnectionsCore& its_core) : core(its_core) { core.listeners_.push_back(this); }

HeldListener::~HeldListener() { core.forget(*this); }

ConnectionsCore::ConnectionsCore(uroce::Endpoint& its_endpoint, DeviceCore& its_device)
    : endpoint(its_endpoint), device(its_device) {
  endpoint.connections().set_events(this, [this] { advance(); });
  device.connections = this;
}

ConnectionsCore::~ConnectionsCore() {
  const EngineLock owner(endpoint);
  device.connections = nullptr;
  endpoint.connections().set_events(nullptr);
}

cm::RdmaCm& ConnectionsCore::manager() const { return endpoint.connections().manager(); }

bool ConnectionsCore::on_cm_event(const cm::Event& event) try {
  if (event.type == cm::EventType::kConnectRequest) {
    const auto* const listener = static_cast<const HeldListener*>(event.listener->user());
    const auto waits = std::count_if(events_.begin(), events_.end(),
                                     [&](const cm::Event& other) { return other.listener == event.listener; });
    if (listener == nullptr || listener->requests.size() + static_cast<size_t>(waits) >= kBacklog) return false;
    event.id->set_user(nullptr);
  }
  events_.push_back(event);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void ConnectionsCore::advance() {
  while (!events_.empty()) {
    std::list<cm::Event> first;  // so that `handle` cannot drop it
    first.splice(first.end(), events_, events_.begin());
    try {
      handle(first.front());
    } catch (const std::bad_alloc&) {
      events_.splice(events_.begin(), first);
      throw;
    }
  }
}

void ConnectionsCore::handle(const cm::Event& event) {
  if (event.type == cm::EventType::kConnectRequest) return handle_request(event);
  auto* const connection = static_cast<HeldConnection*>(event.id->user());
  if (connection == nullptr) return drop_request(event.id);
  switch (event.type) {
    case cm::EventType::kAddrResolved:
      return handle_resolved(*connection, event);
    case cm::EventType::kConnectResponse:
      return handle_answer(*connection, event);
    case cm::EventType::kEstablished:
      if (connection->state == ConnectionState::kConnecting) connection->state = ConnectionState::kEstablished;
      return;
    case cm::EventType::kDisconnected:
      return end(*connection, {" has ended the connection"});
    case cm::EventType::kAddrError:
    case cm::EventType::kRouteError:
    case cm::EventType::kConnectError:
    case cm::EventType::kUnreachable:
    case cm::EventType::kRejected:
      return end(*connection, ending_of(event));
    default:
      return;
  }
}

/// The route is known at once, so the event of the route adds nothing. Called again when there was no memory for the
/// request.
void ConnectionsCore::handle_resolved(HeldConnection& connection, const cm::Event& event) {
  cm::Id& id = *event.id;
  if (!id.route_resolved() && manager().resolve_route(id, kPatience, device.now()) != 0)
    return end(connection, {": there is no route"});
  if (!initialize(connection) || manager().connect(id, connection.param, {}, device.now()) != 0)
    end(connection, {"the queue pair must be in RESET or INIT", 0, false});
}

void ConnectionsCore::handle_request(const cm::Event& event) try {
  static_cast<HeldListener*>(event.listener->user())->requests.push_back({event.id, event.connection});
} catch (const std::bad_alloc&) {
  drop_events(event.id);
  manager().destroy_id(event.id, device.now());  // which refuses it
}

/// Called again when there was no memory for a part of it: what was done stays.
void ConnectionsCore::handle_answer(HeldConnection& connection, const cm::Event& event) {
  connection.from_peer = event.connection.private_data;
  const auto raised = [&](QpState from, QpState to) { return connection.qp->state() != from || raise(connection, to); };
  if (!raised(QpState::kInit, QpState::kRtr) || !raised(QpState::kRtr, QpState::kRts) ||
      connection.qp->state() != QpState::kRts || manager().accept(*event.id, nullptr, {}, device.now()) != 0) {
    return end(connection, {": what it has answered cannot be"});
  }
  connection.state = ConnectionState::kEstablished;
}

/// The requester was gone before the program had decided.
void ConnectionsCore::drop_request(cm::Id* id) {
  for (HeldListener* listener : listeners_) {
    const auto gone = std::erase_if(listener->requests, [id](const auto& request) { return request.id == id; });
    if (gone == 0) continue;
    drop_events(id);
    manager().destroy_id(id, device.now());
    return;
  }
}

void ConnectionsCore::drop_events(const cm::Id* id) {
  std::erase_if(events_, [id](const cm::Event& event) { return event.id == id; });
}

bool ConnectionsCore::possible(const Qp& qp, const ConnectionOptions& options, size_t room, std::string& error) const {
  if (qp.type() != QpType::kRc && qp.type() != QpType::kUc) return error = kOnlyConnected, false;
  if (qp.state() != QpState::kReset && qp.state() != QpState::kInit)
    return error = "the queue pair must be in RESET or INIT", false;
  const auto takes = [&qp](const HeldConnection* held) {
    return held->qp == &qp && held->state != ConnectionState::kEnded;
  };
  if (std::any_of(connections_.begin(), connections_.end(), takes))
    return error = "the queue pair has a connection", false;
  if (options.private_data.size() <= room) return true;
  return error = "at most " + std::to_string(room) + " bytes of private data", false;
}

/// With no more READs and atomics than this side has allowed: before the answer is sent, connection management knows
/// only what the peer has asked for.
bool ConnectionsCore::raise(HeldConnection& connection, QpState state) {
  cm::QpSettings settings;
  if (manager().init_qp_attr(*connection.id, state, settings) != 0) return false;
  QpAttributes& attributes = settings.attributes;
  attributes.max_rd_atomic = std::min(attributes.max_rd_atomic, connection.param.initiator_depth);
  attributes.max_dest_rd_atomic = std::min(attributes.max_dest_rd_atomic, connection.param.responder_resources);
  return device.engine->modify_qp(*connection.qp, attributes, settings.mask, device.now()) == ModifyResult::kOk;
}

/// Moves the QP to INIT. The program may have done so itself, to post receives; the options' access rights apply.
bool ConnectionsCore::initialize(HeldConnection& connection) {
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.access = connection.options.access;
  uint32_t mask = kAttrState | kAttrAccessFlags;
  if (connection.qp->state() == QpState::kReset) mask |= kAttrPkeyIndex | kAttrPort;
  return device.engine->modify_qp(*connection.qp, attributes, mask, device.now()) == ModifyResult::kOk;
}

std::unique_ptr<HeldConnection> ConnectionsCore::begin_connect(Qp& qp, const cm::SocketAddress& to,
                                                               const ConnectionOptions& options, std::string& error) {
  if (!possible(qp, options, kRequestBytes, error)) return nullptr;
  auto made = std::make_unique<HeldConnection>(*this, qp, options);
  made->state = ConnectionState::kEnded;  // until it is begun: the queue pair stays as it is
  made->peer = to.ip;
  made->peer_text = to_string(to.ip) + " port " + std::to_string(to.port);
  made->id = manager().create_id(cm::PortSpace::kTcp, qp.type(), made.get());
  if (made->id == nullptr) return error = "there are too many connections", nullptr;
  const int failed = manager().resolve_addr(*made->id, nullptr, to, options.patience.value_or(kPatience), device.now());
  if (failed != 0) return error = made->peer_text + ": " + errno_text(failed), nullptr;
  made->state = ConnectionState::kConnecting;
  return made;
}

std::unique_ptr<HeldConnection> ConnectionsCore::begin_accept(HeldListener& listener, Qp& qp,
                                                              const ConnectionOptions& options, std::string& error) {
  advance();
  if (!possible(qp, options, cm::kRepPrivateBytes, error)) return nullptr;
  if (qp.type() != listener.id->qp_type()) return error = "the listener is for queue pairs of another type", nullptr;
  if (listener.requests.empty()) return error = "nobody has connected", nullptr;
  auto made = std::make_unique<HeldConnection>(*this, qp, options);
  const HeldListener::Request request = listener.requests.front();
  listener.requests.pop_front();
  made->id = request.id;
  made->peer = request.id->remote().ip;
  made->peer_text = to_string(made->peer);
  made->from_peer = request.param.private_data;
  made->param.responder_resources = std::min(made->param.responder_resources, request.param.responder_resources);
  made->param.initiator_depth = std::min(made->param.initiator_depth, request.param.initiator_depth);
  request.id->set_user(made.get());
  // To RTS before the answer is sent, as librdmacm does: from then on the program may post.
  const bool ready = initialize(*made) && raise(*made, QpState::kRtr) && raise(*made, QpState::kRts);
  if (ready && manager().accept(*made->id, &made->param, {}, device.now()) == 0) return made;
  error = made->peer_text + ": what it has asked for cannot be";
  return nullptr;
}

std::unique_ptr<HeldListener> ConnectionsCore::listen(const cm::SocketAddress& at, QpType type, std::string& error) {
  if (type != QpType::kRc && type != QpType::kUc) return error = kOnlyConnected, nullptr;
  auto made = std::make_unique<HeldListener>(*this);
  made->id = manager().create_id(cm::PortSpace::kTcp, type, made.get());
  if (made->id == nullptr) return error = "there are too many connections", nullptr;
  int failed = manager().bind(*made->id, at);
  if (failed == 0) failed = manager().listen(*made->id, kBacklog);
  if (failed == 0) return made;
  // For a port in use, the kernel returns either errno, and so does connection management.
  const bool taken = failed == EADDRINUSE || (failed == EADDRNOTAVAIL && at.is_any());
  error = to_string(at.ip) + " port " + std::to_string(at.port) + ": " +
          (taken ? "somebody else listens there" : errno_text(failed));
  return nullptr;
}

bool ConnectionsCore::reject(HeldListener& listener) {
  advance();
  if (listener.requests.empty()) return false;
  cm::Id* const id = listener.requests.front().id;
  listener.requests.pop_front();
  manager().reject(*id, {}, 0, device.now());
  drop_events(id);
  manager().destroy_id(id, device.now());
  return true;
}

void ConnectionsCore::end(HeldConnection& connection, const Ending& why) {
  if (connection.state == ConnectionState::kEnded) return;
  const bool stood = connection.state == ConnectionState::kEstablished;
  connection.state = ConnectionState::kEnded;
  connection.ending = why;
  if (connection.qp->state() != QpState::kReset) {
    QpAttributes attributes;
    attributes.state = QpState::kErr;
    device.engine->modify_qp(*connection.qp, attributes, kAttrState, device.now());
  }
  if (stood) {
    manager().disconnect(*connection.id, device.now());
  } else {
    forget_id(connection.id);
  }
}

/// No further event names it.
void ConnectionsCore::forget_id(cm::Id*& id) {
  if (id == nullptr) return;
  drop_events(id);
  manager().destroy_id(std::exchange(id, nullptr), device.now());
}

void ConnectionsCore::on_qp_gone(const Qp& qp) {
  for (HeldConnection* connection : connections_) {
    if (connection->qp != &qp) continue;
    end(*connection, kByThisSide);
    connection->qp = nullptr;
  }
}

void ConnectionsCore::forget(HeldConnection& connection) {
  end(connection, kByThisSide);
  forget_id(connection.id);
  std::erase(connections_, &connection);
}

/// Needs no memory, as what has happened meanwhile might: that waits for the next `advance`.
void ConnectionsCore::forget(HeldListener& listener) {
  for (; !listener.requests.empty(); listener.requests.pop_front()) forget_id(listener.requests.front().id);
  const auto asks = [&](const cm::Event& event) {
    return event.type == cm::EventType::kConnectRequest && event.listener == listener.id;
  };
  for (auto event = std::find_if(events_.begin(), events_.end(), asks); event != events_.end();
       event = std::find_if(events_.begin(), events_.end(), asks)) {
    cm::Id* id = event->id;
    forget_id(id);
  }
  forget_id(listener.id);
  std::erase(listeners_, &listener);
}

}  // namespace uroce::rdma
