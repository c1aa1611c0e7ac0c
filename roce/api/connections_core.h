// Implements the library's connections: turns events of connection management into states of the program's objects.
//
// Connection management reports its events in the middle of turns, when it must not be called. They wait here until
// `advance`, which the endpoint calls after each turn, of the program's calls and of its own thread.
#pragma once

#include <deque>
#include <list>
#include <string>
#include <vector>

#include "api/device_core.h"
#include "cm/rdma_cm.h"
#include "dpdk/endpoint.h"
#include "uroce/connections.h"

namespace uroce::rdma {

/// Why a connection has ended, as a line for the program. Nothing is allocated until it asks.
struct Ending {
  const char* text = "";  // behind the peer's name; "": it has not ended
  int reason = 0;         // 0: none; else it stands behind the text
  bool names_peer = true;
  std::string line(const std::string& peer) const;
};

inline constexpr Ending kByThisSide{"ended by this side", 0, false};

struct HeldConnection {
  HeldConnection(ConnectionsCore& its_core, Qp& its_qp, const ConnectionOptions& its_options);
  ~HeldConnection();
  HeldConnection(const HeldConnection&) = delete;
  HeldConnection& operator=(const HeldConnection&) = delete;

  ConnectionsCore& core;
  Qp* qp;                     // nullptr: it has gone first
  ConnectionOptions options;  // without private data
  cm::ConnParam param;
  std::string peer_text{};  // its name in errors
  cm::Id* id = nullptr;     // nullptr: connection management has forgotten it
  ConnectionState state = ConnectionState::kConnecting;
  cm::PrivateData from_peer{};
  IpAddress peer{};
  Ending ending{};
};

struct HeldListener {
  struct Request {
    cm::Id* id;
    cm::ConnParam param;
  };
  explicit HeldListener(ConnectionsCore& its_core);
  ~HeldListener();
  HeldListener(const HeldListener&) = delete;
  HeldListener& operator=(const HeldListener&) = delete;

  ConnectionsCore& core;
  cm::Id* id = nullptr;
  std::deque<Request> requests{};
};

struct ConnectionsCore final : cm::EventSink {
  /// The endpoint and the device outlive it.
  ConnectionsCore(uroce::Endpoint& endpoint, DeviceCore& device);
  /// To be called without an EngineLock, when an endpoint is closed.
  ~ConnectionsCore() override;

  /// Takes the events reported since the last call. To be called between turns. Without memory for one, it throws
  /// bad_alloc, and that event stays for the next call.
  void advance();
  /// Drives until `is_done`, or until the patience is over: then false.
  template <typename F>
  bool wait(Duration patience, F&& is_done);

  std::unique_ptr<HeldConnection> begin_connect(Qp& qp, const cm::SocketAddress& to, const ConnectionOptions& options,
                                                std::string& error);
  std::unique_ptr<HeldConnection> begin_accept(HeldListener& listener, Qp& qp, const ConnectionOptions& options,
                                               std::string& error);
  std::unique_ptr<HeldListener> listen(const cm::SocketAddress& at, QpType type, std::string& error);
  bool reject(HeldListener& listener);
  /// Ends the connection; does nothing if it has ended.
  void end(HeldConnection& connection, const Ending& why);
  /// A queue pair is destroyed before its connection: that ends now.
  void on_qp_gone(const Qp& qp);

  static constexpr Duration kPatience = milliseconds(10'000);  // for an answer

  uroce::Endpoint& endpoint;
  DeviceCore& device;

 private:
  static constexpr size_t kBacklog = 128;  // requests of a listener that the program has not decided on

  bool on_cm_event(const cm::Event& event) override;
  void handle(const cm::Event& event);
  void handle_resolved(HeldConnection& connection, const cm::Event& event);
  void handle_request(const cm::Event& event);
  void handle_answer(HeldConnection& connection, const cm::Event& event);
  friend struct HeldConnection;
  friend struct HeldListener;
  void forget(HeldConnection& connection);
  void forget(HeldListener& listener);
  void forget_id(cm::Id*& id);
  void drop_request(cm::Id* id);
  void drop_events(const cm::Id* id);
  cm::RdmaCm& manager() const;
  bool possible(const Qp& qp, const ConnectionOptions& options, size_t room, std::string& error) const;
  bool raise(HeldConnection& connection, QpState state);
  bool initialize(HeldConnection& connection);

  std::list<cm::Event> events_;
  std::vector<HeldListener*> listeners_;
  std::vector<HeldConnection*> connections_;
};

template <typename F>
bool ConnectionsCore::wait(Duration patience, F&& is_done) {
  const Instant deadline = endpoint.now() + patience;
  for (advance(); !is_done(); advance()) {
    if (endpoint.now() >= deadline) return false;
    endpoint.drive();
    endpoint.unlock();  // lets other threads have the engine; when nothing happens, the CPU as well
    endpoint.lock();
  }
  return true;
}

}  // namespace uroce::rdma
