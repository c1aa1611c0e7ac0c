// Programs of a machine connect to each other by address and port: each endpoint here is one, with a place of its own
// on a segment. Time is real, and each endpoint is driven by its own thread, or by nobody but it.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cm/connection.h"
#include "dpdk/endpoint.h"
#include "dpdk/endpoint_cm.h"
#include "memif_end.h"
#include "temporary_directory.h"
#include "transport/counters.h"
#include "transport/observer.h"

namespace uroce {
namespace {

constexpr uint16_t kPort = 7174;
constexpr uint8_t kInvalidServiceId = 8;
constexpr uint32_t kClientQpn = 0x4711;
constexpr uint32_t kServerQpn = 0x4712;

class Program final : private cm::EventSink, private Observer {
 public:
  explicit Program(const std::string& host, const std::string& address, const std::string& port = "shmlan")
      : Program(settings(host, address, port)) {}
  explicit Program(const EndpointConfig& config) {
    std::string error;
    endpoint_ = Endpoint::open(config, *this, error);
    EXPECT_TRUE(endpoint_) << error;
    if (endpoint_) listen_to_events(true);
  }
  ~Program() {
    if (endpoint_) listen_to_events(false);
  }

  /// Runs `f` with the connection manager, under the lock.
  template <typename F>
  auto with(F&& f) {
    const EngineLock owner(*endpoint_);
    return f(endpoint_->connections().manager());
  }
  Instant now() const { return endpoint_->now(); }
  Endpoint& endpoint() { return *endpoint_; }

  int listen(const char* address = "0.0.0.0", uint16_t port = kPort, cm::PortSpace space = cm::PortSpace::kTcp) {
    return with([&](cm::RdmaCm& manager) {
      cm::Id* const id = manager.create_id(space, space == cm::PortSpace::kUdp ? QpType::kUd : QpType::kRc, nullptr);
      if (const int failed = manager.bind(*id, at(address, port)); failed != 0) return failed;
      return manager.listen(*id, 8);
    });
  }
  /// An Id whose address and route are resolved.
  cm::Id* resolve(const char* address, uint16_t port = kPort, cm::PortSpace space = cm::PortSpace::kTcp) {
    cm::Id* const id = with([&](cm::RdmaCm& manager) {
      cm::Id* const made = manager.create_id(space, space == cm::PortSpace::kUdp ? QpType::kUd : QpType::kRc, nullptr);
      EXPECT_EQ(manager.resolve_addr(*made, nullptr, at(address, port), milliseconds(2000), now()), 0);
      return made;
    });
    EXPECT_EQ(next().type, cm::EventType::kAddrResolved) << address;
    EXPECT_EQ(with([&](cm::RdmaCm& manager) { return manager.resolve_route(*id, milliseconds(2000), now()); }), 0);
    EXPECT_EQ(next().type, cm::EventType::kRouteResolved) << address;
    return id;
  }
  void connect(cm::Id& id) {
    EXPECT_EQ(with([&](cm::RdmaCm& manager) { return manager.connect(id, parameters(kClientQpn), {}, now()); }), 0);
  }
  void accept(cm::Id& id, bool with_parameters) {
    const cm::ConnParam mine = parameters(kServerQpn);
    EXPECT_EQ(
        with([&](cm::RdmaCm& manager) { return manager.accept(id, with_parameters ? &mine : nullptr, {}, now()); }), 0);
  }
  void disconnect(cm::Id& id) {
    EXPECT_EQ(with([&](cm::RdmaCm& manager) { return manager.disconnect(id, now()); }), 0);
  }
  /// Tells it that data came to its queue pair.
  void note_data() {
    const EngineLock owner(*endpoint_);
    endpoint_->connections().note_established(kServerQpn);
  }
  /// Whether there is an event, after one more turn.
  bool has_event() {
    const EngineLock owner(*endpoint_);
    endpoint_->connections().on_turn(now());
    return !events_.empty();
  }
  /// The next event, which may take a while.
  cm::Event next() {
    for (int i = 0; i < 5000; i++) {
      {
        const EngineLock owner(*endpoint_);
        if (!events_.empty()) {
          const cm::Event event = events_.front();
          events_.pop_front();
          return event;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "no event came";
    return {};
  }
  uint64_t counter(uint64_t Counters::*which) {
    const EngineLock owner(*endpoint_);
    return endpoint_->engine().counters().*which;
  }

  static EndpointConfig settings(const std::string& host, const std::string& address, const std::string& port) {
    EndpointConfig config;
    config.port = port;
    config.host = host;
    config.hugepages = Hugepages::kNo;
    if (!address.empty()) config.addresses = {*parse_local_address(address)};
    return config;
  }

 private:
  static cm::SocketAddress at(const char* address, uint16_t port) {
    cm::SocketAddress socket;
    socket.ip = *parse_ip(address);
    socket.family = socket.ip.is_v4() ? cm::SocketAddress::Family::kV4 : cm::SocketAddress::Family::kV6;
    socket.port = port;
    return socket;
  }
  static cm::ConnParam parameters(uint32_t qpn) {
    cm::ConnParam param;
    param.qpn = qpn;
    param.responder_resources = param.initiator_depth = 1;
    param.retry_count = param.rnr_retry_count = 7;
    return param;
  }
  void listen_to_events(bool on) {
    const EngineLock owner(*endpoint_);
    endpoint_->connections().set_events(on ? this : nullptr);
  }
  bool on_cm_event(const cm::Event& event) override {
    events_.push_back(event);
    return true;
  }

  std::deque<cm::Event> events_;
  std::unique_ptr<Endpoint> endpoint_;
};

class Connections : public testing::Test {
 protected:
  /// From REQ to both sides having disconnected.
  static void live(Program& client, Program& server, const char* address) {
    cm::Id* const active = client.resolve(address);
    client.connect(*active);
    const cm::Event request = server.next();
    ASSERT_EQ(request.type, cm::EventType::kConnectRequest);
    EXPECT_EQ(request.connection.qpn, kClientQpn);
    server.accept(*request.id, true);
    ASSERT_EQ(client.next().type, cm::EventType::kConnectResponse);
    client.accept(*active, false);
    ASSERT_EQ(server.next().type, cm::EventType::kEstablished);
    client.disconnect(*active);
    EXPECT_EQ(server.next().type, cm::EventType::kDisconnected);
    server.disconnect(*request.id);
    EXPECT_EQ(client.next().type, cm::EventType::kDisconnected);
  }
  static void refused(Program& client, const char* address) {
    cm::Id* const active = client.resolve(address);
    const Instant before = client.now();
    client.connect(*active);
    const cm::Event event = client.next();
    EXPECT_EQ(event.type, cm::EventType::kRejected);
    EXPECT_EQ(event.status, kInvalidServiceId);
    EXPECT_LT((client.now() - before).ns, milliseconds(4500).ns) << "an answer, not a timeout";
  }

  TemporaryRuntimeDir dir_;
};

TEST_F(Connections, OfTwoProgramsOfAHost) {
  Program server("host", "10.0.0.1/24"), client("host", "10.0.0.1/24"), another("host", "10.0.0.1/24");
  ASSERT_EQ(server.listen(), 0);
  live(client, server, "10.0.0.1");
  live(another, server, "127.0.0.1");
  EXPECT_EQ(client.counter(&Counters::rx_drop_no_qp), 0u);
}

/// Data may overtake the message with which the client reports that it is ready, and has the same effect. But not on a
/// later connection of that queue pair.
TEST_F(Connections, AreEstablishedByDataOnce) {
  Program server("host", "10.0.0.1/24"), client("host", "10.0.0.1/24");
  ASSERT_EQ(server.listen(), 0);
  for (int time = 0; time < 2; time++) {
    cm::Id* const active = client.resolve("10.0.0.1");
    client.connect(*active);
    const cm::Event request = server.next();
    ASSERT_EQ(request.type, cm::EventType::kConnectRequest);
    server.accept(*request.id, true);
    ASSERT_EQ(client.next().type, cm::EventType::kConnectResponse);
    EXPECT_FALSE(server.has_event()) << "connection " << time << ": no data has come";
    server.note_data();
    ASSERT_EQ(server.next().type, cm::EventType::kEstablished);
    client.accept(*active, false);
    client.disconnect(*active);
    EXPECT_EQ(server.next().type, cm::EventType::kDisconnected);
    server.disconnect(*request.id);
    EXPECT_EQ(client.next().type, cm::EventType::kDisconnected);
  }
}

TEST_F(Connections, OfTwoHosts) {
  Program server("one", "fd00::1/64"), idle("one", "fd00::1/64"), client("two", "fd00::2/64");
  ASSERT_EQ(server.listen("::"), 0);
  live(client, server, "fd00::1");
  EXPECT_EQ(idle.counter(&Counters::rx_mads), 0u);
}

TEST_F(Connections, OfAProgramWithItself) {
  Program program("host", "10.0.0.1/24"), other("host", "10.0.0.1/24");
  ASSERT_EQ(program.listen(), 0);
  cm::Id* const active = program.resolve("10.0.0.1");
  program.connect(*active);
  const cm::Event request = program.next();
  ASSERT_EQ(request.type, cm::EventType::kConnectRequest);
  program.accept(*request.id, true);
  ASSERT_EQ(program.next().type, cm::EventType::kConnectResponse);
  program.accept(*active, false);
  EXPECT_EQ(program.next().type, cm::EventType::kEstablished);
}

TEST_F(Connections, AreRefusedWhereNobodyListens) {
  Program client("two", "10.0.0.2/24"), silent("one", "10.0.0.1/24");
  refused(client, "10.0.0.1");
  refused(client, "10.0.0.2");  // its own address: no other program listens
  Program neighbour("two", "10.0.0.2/24");
  refused(client, "127.0.0.1");
}

TEST_F(Connections, APortBelongsToOneProgram) {
  Program first("host", "10.0.0.1/24"), other_host("host2", "10.0.0.2/24");
  ASSERT_EQ(first.listen(), 0);
  {
    Program second("host", "10.0.0.1/24");
    EXPECT_EQ(second.listen(), EADDRINUSE);
    EXPECT_EQ(second.listen("0.0.0.0", kPort + 1), 0);
    EXPECT_EQ(second.listen("0.0.0.0", kPort, cm::PortSpace::kUdp), 0) << "another port space";
  }
  EXPECT_EQ(other_host.listen(), 0);
  EXPECT_EQ(first.listen("0.0.0.0", kPort + 1), 0) << "whoever had it is gone";
}

TEST_F(Connections, DatagramServicesAreFound) {
  Program server("host", "10.0.0.1/24"), client("host", "10.0.0.1/24");
  ASSERT_EQ(server.listen("10.0.0.1", kPort, cm::PortSpace::kUdp), 0);
  cm::Id* const active = client.resolve("10.0.0.1", kPort, cm::PortSpace::kUdp);
  client.connect(*active);
  const cm::Event request = server.next();
  ASSERT_EQ(request.type, cm::EventType::kConnectRequest);
  server.accept(*request.id, true);
  const cm::Event answer = client.next();
  EXPECT_EQ(answer.type, cm::EventType::kEstablished);
  EXPECT_EQ(answer.datagram.qpn, kServerQpn);
}

/// A machine: its uplink, on a wire to another machine, and a segment for its programs.
struct Machine {
  Machine(const std::string& name, const std::string& address) : segment("shmlan:" + name) {
    EndpointConfig config = Program::settings("", address, memif_end(20, name == "left" ? 0 : 1));
    config.uplink = UplinkConfig{name, "", "", 0, 0};
    std::string error;
    uplink = Endpoint::open(config, nobody, error);
    EXPECT_TRUE(uplink) << error;
  }
  uint64_t counter(uint64_t Counters::*which) {
    const EngineLock owner(*uplink);
    return uplink->engine().counters().*which;
  }

  const std::string segment;
  Observer nobody;
  std::unique_ptr<Endpoint> uplink;
};

TEST_F(Connections, BetweenMachines) {
  Machine left("left", "10.0.0.1/24"), right("right", "10.0.0.2/24");
  ASSERT_TRUE(left.uplink && right.uplink);
  {
    Program client("", "", left.segment), idle("", "", right.segment);
    refused(client, "10.0.0.2");
    EXPECT_EQ(right.counter(&Counters::tx_mads), 1 + cm::kAskAgainAfter.size())
        << "the uplink says so, as often as it is asked";
    Program server("", "", right.segment);
    ASSERT_EQ(server.listen(), 0);
    live(client, server, "10.0.0.2");
    EXPECT_EQ(idle.counter(&Counters::rx_mads), 0u);
  }
}

}  // namespace
}  // namespace uroce
