#include "uroce/connections.h"

#include "api/connections_core.h"
#include "uroce/queue_pair.h"

namespace uroce::rdma {

namespace {

bool parse(std::string_view address, uint16_t port, cm::SocketAddress& to, std::string& error) {
  const auto ip = parse_ip(address);
  if (!ip) return error = "not an address: " + std::string(address), false;
  to.family = ip->is_v4() ? cm::SocketAddress::Family::kV4 : cm::SocketAddress::Family::kV6;
  to.ip = *ip;
  to.port = port;
  return true;
}

/// The queue pair of `held`, or nullptr when it does not belong to this endpoint.
Qp* qp_of(const Handle<HeldQueuePair>& held, const DeviceCore& device, std::string& error) {
  if (held != nullptr && held.get_deleter().core == &device) return real(held.get());
  return error = "not a queue pair of this endpoint", nullptr;
}

/// Waits until the connection is established. None, with one line in `error`, if that does not happen.
std::unique_ptr<HeldConnection> finish(std::unique_ptr<HeldConnection> made, std::string& error) {
  if (made == nullptr) return nullptr;
  ConnectionsCore& core = made->core;
  if (!core.wait(made->options.patience.value_or(ConnectionsCore::kPatience),
                 [&] { return made->state != ConnectionState::kConnecting; }))
    core.end(*made, {": does not answer"});
  if (made->state == ConnectionState::kEstablished) return made;
  error = made->ending.line(made->peer_text);
  return nullptr;
}

std::span<const std::byte> bytes_of_data(const cm::PrivateData& data) { return std::as_bytes(data.view()); }

}  // namespace

template <>
void Release<HeldConnection>::operator()(HeldConnection* connection) const {
  delete connection;
}

template <>
void Release<HeldListener>::operator()(HeldListener* listener) const {
  delete listener;
}

ConnectionState Connection::state() const {
  held_->core.advance();
  return held_->state;
}
std::span<const std::byte> Connection::private_data() const { return bytes_of_data(held_->from_peer); }
IpAddress Connection::peer() const { return held_->peer; }
std::string Connection::error() const { return held_->ending.line(held_->peer_text); }
void Connection::disconnect() {
  held_->core.advance();
  held_->core.end(*held_, kByThisSide);
}

uint32_t Listener::waiting() const {
  held_->core.advance();
  return static_cast<uint32_t>(held_->requests.size());
}

std::span<const std::byte> Listener::private_data() const {
  if (waiting() == 0) return {};
  return bytes_of_data(held_->requests.front().param.private_data);
}

Connection Listener::begin_accept(QueuePair& qp, std::string& error, const ConnectionOptions& options) {
  Connection connection;
  ConnectionsCore& core = held_->core;
  Qp* const its = qp_of(qp.qp_, core.device, error);
  if (its != nullptr) connection.held_.reset(core.begin_accept(*held_, *its, options, error).release());
  return connection;
}

Connection Listener::accept(QueuePair& qp, std::string& error, const ConnectionOptions& options) {
  Connection connection;
  ConnectionsCore& core = held_->core;
  Qp* const its = qp_of(qp.qp_, core.device, error);
  if (its == nullptr) return connection;
  constexpr Duration kForEver{Instant::never().ns / 2};  // a century
  core.wait(options.patience.value_or(kForEver), [this] { return !held_->requests.empty(); });
  auto made = core.begin_accept(*held_, *its, options, error);
  connection.held_.reset(finish(std::move(made), error).release());
  return connection;
}

bool Listener::reject() { return held_->core.reject(*held_); }

Connections::Connections(std::unique_ptr<ConnectionsCore> core) : core_(std::move(core)) {}
Connections::~Connections() = default;

Connection Connections::begin_connect(QueuePair& qp, std::string_view address, uint16_t port, std::string& error,
                                      const ConnectionOptions& options) {
  Connection connection;
  cm::SocketAddress to;
  Qp* const its = qp_of(qp.qp_, core_->device, error);
  if (its != nullptr && parse(address, port, to, error))
    connection.held_.reset(core_->begin_connect(*its, to, options, error).release());
  return connection;
}

Connection Connections::connect(QueuePair& qp, std::string_view address, uint16_t port, std::string& error,
                                const ConnectionOptions& options) {
  Connection connection;
  cm::SocketAddress to;
  Qp* const its = qp_of(qp.qp_, core_->device, error);
  if (its == nullptr || !parse(address, port, to, error)) return connection;
  auto made = core_->begin_connect(*its, to, options, error);
  connection.held_.reset(finish(std::move(made), error).release());
  return connection;
}

Listener Connections::listen(uint16_t port, std::string& error, std::string_view address, QpType type) {
  Listener listener;
  cm::SocketAddress at;
  if (parse(address, port, at, error)) listener.held_.reset(core_->listen(at, type, error).release());
  return listener;
}

}  // namespace uroce::rdma
