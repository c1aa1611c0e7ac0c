// Serves one text over HTTP, for Prometheus: GET or HEAD of /metrics, everything else is an error.
//
// One thread of its own serves all connections, and waits for no client: one that is slow, silent or sends nonsense
// holds a connection for some seconds, and nothing else. How many connections there are is bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace uroce::metrics {

class MetricsServer {
 public:
  /// Gives the current text. Called in the server's thread, once for each request; other clients wait meanwhile.
  using Source = std::function<std::string()>;

  static constexpr unsigned kConnections = 256;         // more are closed at once
  static constexpr unsigned kSilenceSeconds = 5;        // then a connection is closed
  static constexpr size_t kConnectionBytes = 16 << 10;  // for a request; a longer one is an error

  /// `address`: "127.0.0.1:9464", "[::1]:9464"; port 0: any free one. Returns nullptr, with one line in `error`, when
  /// it is no address, or cannot be had.
  static std::unique_ptr<MetricsServer> start(const std::string& address, Source source, std::string& error);
  /// Ends the thread, and with it all connections.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// The port on which it listens.
  uint16_t port() const { return port_; }

 private:
  struct Daemon;
  explicit MetricsServer(Source source);

  Source source_;
  std::unique_ptr<Daemon> daemon_;
  uint16_t port_ = 0;
};

}  // namespace uroce::metrics
