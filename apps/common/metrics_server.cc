#include "common/metrics_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "common/prometheus.h"

namespace uroce::metrics {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::optional<SocketAddress> parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || code != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  std::string host(text.substr(0, colon));
  SocketAddress address;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    auto* const in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    address.bytes = sizeof *in6;
    if (inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &in6->sin6_addr) != 1) return std::nullopt;
  } else {
    auto* const in = reinterpret_cast<sockaddr_in*>(&address.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    address.bytes = sizeof *in;
    if (inet_pton(AF_INET, host.c_str(), &in->sin_addr) != 1) return std::nullopt;
  }
  return address;
}

MHD_Result answer(MHD_Connection* connection, unsigned status, std::string text) {
  MHD_Response* const response = MHD_create_response_from_buffer(text.size(), text.data(), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                          status == MHD_HTTP_OK ? kContentType : "text/plain; charset=utf-8");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  // Bodies are not read, so the connection of a client that sends one is closed.
  if (status != MHD_HTTP_OK) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  const MHD_Result result = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return result;
}

MHD_Result on_request(void* context, MHD_Connection* connection, const char* url, const char* method,
                      const char* /*version*/, const char* /*upload*/, size_t* /*upload_bytes*/, void** /*state*/) {
  const std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
    return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
  if (std::string_view(url) != "/metrics") return answer(connection, MHD_HTTP_NOT_FOUND, "there is /metrics\n");
  return answer(connection, MHD_HTTP_OK, (*static_cast<MetricsServer::Source*>(context))());
}

}  // namespace

struct MetricsServer::Daemon {
  MHD_Daemon* daemon = nullptr;
  ~Daemon() {
    if (daemon != nullptr) MHD_stop_daemon(daemon);
  }
};

MetricsServer::MetricsServer(Source source) : source_(std::move(source)), daemon_(std::make_unique<Daemon>()) {}
MetricsServer::~MetricsServer() = default;

std::unique_ptr<MetricsServer> MetricsServer::start(const std::string& address, Source source, std::string& error) {
  const auto where = parse_address(address);
  if (!where) {
    error = "'" + address + "' is no address to listen on: ADDRESS:PORT, as in 127.0.0.1:9464 or [::1]:9464";
    return nullptr;
  }
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(source)));
  const unsigned ipv6 = where->storage.ss_family == AF_INET6 ? unsigned{MHD_USE_IPv6} : 0U;
  errno = 0;
  server->daemon_->daemon = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | ipv6, 0, nullptr, nullptr, on_request, &server->source_, MHD_OPTION_SOCK_ADDR,
      where->get(), MHD_OPTION_CONNECTION_LIMIT, kConnections, MHD_OPTION_CONNECTION_TIMEOUT, kSilenceSeconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_END);
  if (server->daemon_->daemon == nullptr) {
    error = "cannot listen on " + address + ": " + (errno != 0 ? std::strerror(errno) : "no HTTP server");
    return nullptr;
  }
  const MHD_DaemonInfo* const info = MHD_get_daemon_info(server->daemon_->daemon, MHD_DAEMON_INFO_BIND_PORT);
  server->port_ = info != nullptr ? info->port : 0;
  return server;
}

}  // namespace uroce::metrics
