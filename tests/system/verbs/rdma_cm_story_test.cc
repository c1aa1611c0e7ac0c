// Connections through /dev/infiniband/rdma_cm, from the first command to the last, between channels of one process.
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "rdma_cm_rig.h"

namespace {

using namespace verbs_test;

// rdma_cm_event_type.
constexpr uint32_t kAddrResolved = 0;
constexpr uint32_t kRouteResolved = 2;
constexpr uint32_t kConnectRequest = 4;
constexpr uint32_t kConnectResponse = 5;
constexpr uint32_t kRejected = 8;
constexpr uint32_t kEstablished = 9;
constexpr uint32_t kDisconnected = 10;

constexpr uint32_t kClientQpn = 0x123456;
constexpr uint32_t kServerQpn = 0x654321;

rdma_ucm_conn_param parameters(uint32_t qpn, const std::string& data) {
  rdma_ucm_conn_param param{};
  param.qp_num = qpn;
  std::memcpy(param.private_data, data.data(), data.size());
  param.private_data_len = static_cast<uint8_t>(data.size());
  param.responder_resources = 3;
  param.initiator_depth = 4;
  param.retry_count = 6;
  param.rnr_retry_count = 5;
  param.valid = 1;
  return param;
}

std::string data_of(const rdma_ucm_event_resp& event, size_t bytes) {
  return {reinterpret_cast<const char*>(event.param.conn.private_data), bytes};
}

uint16_t port_of(const rdma_ucm_query_addr_resp& bound) {
  sockaddr_in local;
  std::memcpy(&local, &bound.src_addr, sizeof local);
  return ntohs(local.sin_port);
}

class RdmaCmStoryTest : public testing::Test {
 protected:
  void listen(uint32_t backlog = 0) {
    ASSERT_EQ(server_.bind(listener_, ipv4(INADDR_ANY, 0)), 0);
    ASSERT_EQ(server_.listen(listener_, backlog), 0);
    port_ = port_of(server_.query_addr(listener_));
  }
  /// Resolves address and route.
  void resolve(uint32_t id, uint64_t uid, uint16_t port) {
    ASSERT_EQ(client_.resolve(id, ipv4(kLoopback, port)), 0);
    rdma_ucm_event_resp event = client_.event();
    ASSERT_EQ(event.event, kAddrResolved);
    EXPECT_EQ(event.uid, uid);
    EXPECT_EQ(event.id, id);
    ASSERT_EQ(client_.command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 2000}), 0);
    event = client_.event();
    ASSERT_EQ(event.event, kRouteResolved);
    EXPECT_EQ(event.status, 0u);
  }
  int connect(uint32_t id, const std::string& data) {
    rdma_ucm_connect body{};
    body.conn_param = parameters(kClientQpn + id, data);  // each connection has another queue pair
    body.id = id;
    return client_.command(RDMA_USER_CM_CMD_CONNECT, body);
  }
  int accept(const Channel& channel, uint32_t id, uint64_t uid, const std::string& data) {
    rdma_ucm_accept body{};
    body.uid = uid;
    body.conn_param = parameters(kServerQpn, data);
    body.id = id;
    return channel.command(RDMA_USER_CM_CMD_ACCEPT, body);
  }

  Channel server_;
  Channel client_;
  uint32_t listener_ = server_.create_id(0x11);
  uint32_t active_ = client_.create_id(0x22);
  uint16_t port_ = 0;
};

TEST_F(RdmaCmStoryTest, AResolvedAddressHasADevice) {
  listen();
  resolve(active_, 0x22, port_);
  const rdma_ucm_query_addr_resp bound = client_.query_addr(active_);
  int devices = 0;
  ibv_device** list = ibv_get_device_list(&devices);
  ASSERT_EQ(devices, 1);
  EXPECT_EQ(bound.node_guid, ibv_get_device_guid(list[0]));
  EXPECT_EQ(bound.ibdev_index, static_cast<uint32_t>(ibv_get_device_index(list[0])));
  ibv_free_device_list(list);
  EXPECT_EQ(bound.port_num, 1);
  EXPECT_EQ(bound.pkey, 0xffff);
  EXPECT_EQ(bound.dst_size, sizeof(sockaddr_in));

  ib_uverbs_qp_attr attributes{};
  ASSERT_EQ(client_.ask(RDMA_USER_CM_CMD_INIT_QP_ATTR, rdma_ucm_init_qp_attr{0, active_, IBV_QPS_INIT}, attributes), 0);
  EXPECT_EQ(attributes.qp_attr_mask & (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT),
            uint32_t{IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT});
  EXPECT_EQ(attributes.qp_state, uint32_t{IBV_QPS_INIT});
  EXPECT_EQ(attributes.port_num, 1);
}

/// While it lives, no file can be written to.
class FullFiles {
 public:
  FullFiles() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit nothing{0, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &nothing), 0);
  }
  ~FullFiles() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    signal(SIGXFSZ, old_);
  }

 private:
  rlimit before_{};
  void (*const old_)(int) = signal(SIGXFSZ, SIG_IGN);
};

/// On a segment, other programs learn of a listener from a file. A port of the program's own needs none.
TEST_F(RdmaCmStoryTest, WhoCannotBeFoundHearsOfItAndMayTryAgain) {
  const char* const port = getenv("UROCE_PORT");
  const bool others = port == nullptr || std::string(port).starts_with("shmlan");
  ASSERT_EQ(server_.bind(listener_, ipv4(INADDR_ANY, 0)), 0);
  {
    const FullFiles full;
    EXPECT_EQ(server_.listen(listener_, 1), others ? EFBIG : 0);
  }
  if (others) {
    EXPECT_EQ(server_.listen(listener_, 1), 0);
  }
  resolve(active_, 0x22, port_of(server_.query_addr(listener_)));
  ASSERT_EQ(connect(active_, "hello"), 0);
  EXPECT_EQ(server_.event().event, kConnectRequest);
}

TEST_F(RdmaCmStoryTest, ConnectionFromFirstToLast) {
  listen();
  resolve(active_, 0x22, port_);
  ib_uverbs_qp_attr attributes{};
  ASSERT_EQ(connect(active_, "hello"), 0);
  const rdma_ucm_event_resp request = server_.event();
  ASSERT_EQ(request.event, kConnectRequest);
  EXPECT_EQ(request.uid, 0x11u);  // the listener's, until the request is accepted
  EXPECT_NE(request.id, listener_);
  EXPECT_EQ(data_of(request, 5), "hello");
  EXPECT_EQ(request.param.conn.qp_num, kClientQpn + active_);
  EXPECT_EQ(request.param.conn.responder_resources, 4);  // as seen by the passive side
  EXPECT_EQ(request.param.conn.initiator_depth, 3);
  EXPECT_EQ(request.param.conn.rnr_retry_count, 5);

  ASSERT_EQ(accept(server_, request.id, 0x33, "welcome"), 0);
  const rdma_ucm_event_resp response = client_.event();
  ASSERT_EQ(response.event, kConnectResponse);
  EXPECT_EQ(response.uid, 0x22u);
  EXPECT_EQ(data_of(response, 7), "welcome");
  EXPECT_EQ(response.param.conn.qp_num, kServerQpn);

  ASSERT_EQ(client_.ask(RDMA_USER_CM_CMD_INIT_QP_ATTR, rdma_ucm_init_qp_attr{0, active_, IBV_QPS_RTR}, attributes), 0);
  EXPECT_EQ(attributes.dest_qp_num, kServerQpn);
  EXPECT_EQ(attributes.ah_attr.is_global, 1);
  EXPECT_NE(attributes.qp_attr_mask & IBV_QP_DEST_QPN, 0u);
  const uint32_t client_psn = attributes.rq_psn;
  ib_uverbs_qp_attr servers{};
  ASSERT_EQ(server_.ask(RDMA_USER_CM_CMD_INIT_QP_ATTR, rdma_ucm_init_qp_attr{0, request.id, IBV_QPS_RTS}, servers), 0);
  EXPECT_EQ(servers.sq_psn, client_psn);  // the first PSN of one side is what the other expects

  rdma_ucm_accept ready{};
  ready.id = active_;
  ASSERT_EQ(client_.command(RDMA_USER_CM_CMD_ACCEPT, ready), 0);
  const rdma_ucm_event_resp established = server_.event();
  EXPECT_EQ(established.event, kEstablished);
  EXPECT_EQ(established.uid, 0x33u);
  EXPECT_EQ(established.id, request.id);

  ASSERT_EQ(client_.command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{active_}), 0);
  EXPECT_EQ(server_.event().event, kDisconnected);
  EXPECT_FALSE(client_.readable(50));  // answering is up to the program
  ASSERT_EQ(server_.command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{request.id}), 0);
  EXPECT_EQ(client_.event().event, kDisconnected);
  EXPECT_EQ(server_.destroy(request.id), 2u);  // established, disconnected
  EXPECT_EQ(server_.destroy(listener_), 1u);   // the request
  EXPECT_EQ(client_.destroy(active_), 4u);     // address, route, response, disconnected
}

/// A second accept is refused and changes nothing: events still have the first uid.
TEST_F(RdmaCmStoryTest, AnAcceptThatIsRefusedChangesNothing) {
  listen();
  resolve(active_, 0x22, port_);
  ASSERT_EQ(connect(active_, ""), 0);
  const uint32_t passive = server_.event().id;
  ASSERT_EQ(accept(server_, passive, 0x33, ""), 0);
  ASSERT_EQ(client_.event().event, kConnectResponse);
  rdma_ucm_accept ready{};
  ready.id = active_;
  ASSERT_EQ(client_.command(RDMA_USER_CM_CMD_ACCEPT, ready), 0);
  ASSERT_EQ(server_.event().event, kEstablished);
  EXPECT_EQ(accept(server_, passive, 0x44, ""), EINVAL);
  ASSERT_EQ(client_.command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{active_}), 0);
  const rdma_ucm_event_resp ended = server_.event();
  EXPECT_EQ(ended.event, kDisconnected);
  EXPECT_EQ(ended.uid, 0x33u);
}

TEST_F(RdmaCmStoryTest, Rejection) {
  listen();
  resolve(active_, 0x22, port_);
  ASSERT_EQ(connect(active_, ""), 0);
  const rdma_ucm_event_resp request = server_.event();
  ASSERT_EQ(request.event, kConnectRequest);
  rdma_ucm_reject body{};
  body.id = request.id;
  std::memcpy(body.private_data, "no", 2);
  body.private_data_len = 2;
  ASSERT_EQ(server_.command(RDMA_USER_CM_CMD_REJECT, body), 0);
  const rdma_ucm_event_resp rejected = client_.event();
  EXPECT_EQ(rejected.event, kRejected);
  EXPECT_EQ(rejected.status, 28u);  // rejected by the program
  EXPECT_EQ(data_of(rejected, 2), "no");
}

TEST_F(RdmaCmStoryTest, NobodyListens) {
  resolve(active_, 0x22, 7);
  ASSERT_EQ(connect(active_, ""), 0);
  const rdma_ucm_event_resp rejected = client_.event();
  EXPECT_EQ(rejected.event, kRejected);
  EXPECT_EQ(rejected.status, 8u);  // invalid service ID
}

TEST_F(RdmaCmStoryTest, APortIsTakenOnce) {
  listen();
  const uint32_t second = server_.create_id(0x12);
  EXPECT_EQ(server_.bind(second, ipv4(INADDR_ANY, port_)), EADDRNOTAVAIL);  // the kernel's errno, of "any"
}

/// As in the kernel, a request for which there is no room gets no answer; it is sent again.
TEST_F(RdmaCmStoryTest, ABacklogIsFull) {
  listen(1);
  const uint32_t second = client_.create_id(0x23);
  resolve(active_, 0x22, port_);
  resolve(second, 0x23, port_);
  ASSERT_EQ(connect(active_, "first"), 0);
  ASSERT_TRUE(server_.readable(kPatienceMs));
  ASSERT_EQ(connect(second, "second"), 0);
  EXPECT_FALSE(client_.readable(100));
  EXPECT_EQ(data_of(server_.event(), 5), "first");
  EXPECT_FALSE(server_.readable(50));
  ASSERT_TRUE(server_.readable(kPatienceMs));
  EXPECT_EQ(data_of(server_.event(), 6), "second");
}

/// A request that was not taken is refused when its listener or its channel is destroyed.
TEST_F(RdmaCmStoryTest, WaitingRequestsEndWithTheirListener) {
  for (const bool with_channel : {false, true}) {
    Channel server;
    const uint32_t listener = server.create_id(0x15);
    ASSERT_EQ(server.bind(listener, ipv4(INADDR_ANY, 0)), 0);
    ASSERT_EQ(server.listen(listener, 0), 0);
    const uint32_t id = client_.create_id(0x25);
    resolve(id, 0x25, port_of(server.query_addr(listener)));
    ASSERT_EQ(connect(id, ""), 0);
    ASSERT_TRUE(server.readable(kPatienceMs));
    if (with_channel) {
      server.shut();
    } else {
      EXPECT_EQ(server.destroy(listener), 0u);
      EXPECT_FALSE(server.readable(0));
    }
    EXPECT_EQ(client_.event().event, kRejected);
  }
}

/// As librdmacm does for every new connection of an id without a channel.
TEST_F(RdmaCmStoryTest, EventsMoveWithTheirId) {
  listen();
  resolve(active_, 0x22, port_);
  ASSERT_EQ(connect(active_, "hello"), 0);
  ASSERT_TRUE(server_.readable(kPatienceMs));
  const Channel other;
  rdma_ucm_migrate_resp moved{};
  ASSERT_EQ(other.ask(RDMA_USER_CM_CMD_MIGRATE_ID,
                      rdma_ucm_migrate_id{0, listener_, static_cast<uint32_t>(server_.fd())}, moved),
            0);
  EXPECT_EQ(moved.events_reported, 0u);
  EXPECT_FALSE(server_.readable(0));
  const rdma_ucm_event_resp request = other.event();
  ASSERT_EQ(request.event, kConnectRequest);
  // The connection moved along; from here it moves alone.
  const Channel third;
  ASSERT_EQ(third.ask(RDMA_USER_CM_CMD_MIGRATE_ID,
                      rdma_ucm_migrate_id{0, request.id, static_cast<uint32_t>(other.fd())}, moved),
            0);
  ASSERT_EQ(accept(third, request.id, 0x33, ""), 0);
  ASSERT_EQ(client_.event().event, kConnectResponse);
  rdma_ucm_accept ready{};
  ready.id = active_;
  ASSERT_EQ(client_.command(RDMA_USER_CM_CMD_ACCEPT, ready), 0);
  EXPECT_EQ(third.event().event, kEstablished);
  EXPECT_FALSE(other.readable(0));
}

TEST_F(RdmaCmStoryTest, WhoWaitsIsWoken) {
  listen();
  uint32_t seen = ~0u;
  std::thread waiting([&] {
    rdma_ucm_event_resp reply{};
    if (server_.ask(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, reply) == 0) seen = reply.event;
  });
  resolve(active_, 0x22, port_);
  EXPECT_EQ(connect(active_, ""), 0);
  waiting.join();
  EXPECT_EQ(seen, kConnectRequest);
}

// A write to the kernel's device is a cancellation point. libiscsi relies on it.
TEST_F(RdmaCmStoryTest, WhoWaitsCanBeCancelled) {
  listen();
  bool came_back = false;
  std::thread waiting([&] {
    rdma_ucm_event_resp reply{};
    server_.ask(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, reply);
    came_back = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  pthread_cancel(waiting.native_handle());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  resolve(active_, 0x22, port_);
  EXPECT_EQ(connect(active_, ""), 0);
  // The event is left for the next thread that comes, which drives the engine when no other does.
  rdma_ucm_event_resp reply{};
  EXPECT_EQ(server_.ask(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, reply), 0);
  EXPECT_EQ(reply.event, kConnectRequest);
  waiting.join();
  EXPECT_FALSE(came_back);
}

}  // namespace
