// A thread that is to be cancelled (pthread_cancel) ends where it waits for an event, as the manual says, or where it
// asks (pthread_testcancel), and in no other call.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class CancelTest : public PairTest {
 protected:
  void SetUp() override { make_pair(); }

  /// Calls `call` in a thread that will be cancelled at its next cancellation point.
  static void expect_no_point(const char* name, const std::function<void()>& call) {
    struct Body {
      const std::function<void()>& call;
      bool done = false;
    } body{call};
    pthread_t thread{};
    const auto run = [](void* argument) -> void* {
      pthread_cancel(pthread_self());
      auto& started = *static_cast<Body*>(argument);
      started.call();
      started.done = true;
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, nullptr, run, &body), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    EXPECT_TRUE(body.done) << name;
  }
  ibv_send_wr write() {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = b_.addr();
    wr.wr.rdma.rkey = b_.rkey();
    return wr;
  }
};

/// After a pause, so that the thread which drives the engine sleeps and has to be woken.
void pause_a_while() { usleep(30000); }

TEST_F(CancelTest, NotWhileItPostsAndPolls) {
  for (int i = 0; i < 3; i++) {
    pause_a_while();
    expect_no_point("ibv_post_send", [&] { EXPECT_EQ(post_send(left_.get(), write(), a_.sge(0, 64)), 0); });
    expect_no_point("ibv_poll_cq", [&] { EXPECT_EQ(poll(cq_.get(), 1).at(0).status, IBV_WC_SUCCESS); });
    pause_a_while();
    expect_no_point("ibv_post_recv", [&] { EXPECT_EQ(post_recv(right_.get(), 1, b_.sge(0, 64)), 0); });
    expect_no_point("ibv_req_notify_cq", [&] { EXPECT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0); });
  }
}

TEST_F(CancelTest, NotWhileSomethingIsLogged) {
  ibv_send_wr wr = write();
  wr.wr.rdma.rkey ^= 0x5500;
  expect_no_point("a request that is refused", [&] {
    EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 64)), 0);
    EXPECT_EQ(poll(cq_.get(), 1).at(0).status, IBV_WC_REM_ACCESS_ERR);
  });
  expect_no_point("a region that does not exist", [&] {
    EXPECT_EQ(ibv_reg_mr(pd_.get(), reinterpret_cast<void*>(8), 100, IBV_ACCESS_LOCAL_WRITE), nullptr);
  });
}

TEST_F(CancelTest, NotWhileAnObjectIsMadeOrDestroyed) {
  const auto made = [](const char* name, auto make, auto destroy) {
    decltype(make()) object = nullptr;
    pause_a_while();
    expect_no_point(name, [&] { object = make(); });
    ASSERT_NE(object, nullptr) << name;
    pause_a_while();
    expect_no_point(name, [&] { EXPECT_EQ(destroy(object), 0) << name; });
  };
  ibv_pd* const pd = pd_.get();
  made(
      "context", [] { return ibv_open_device(device()->device); }, ibv_close_device);
  made(
      "pd", [] { return ibv_alloc_pd(device()); }, ibv_dealloc_pd);
  made(
      "mr", [&] { return ibv_reg_mr(pd, a_.data(), 64, kAllAccess); }, ibv_dereg_mr);
  made(
      "mr on demand", [&] { return ibv_reg_mr(pd, a_.data(), 64, IBV_ACCESS_ON_DEMAND); }, ibv_dereg_mr);
  made(
      "mw", [&] { return ibv_alloc_mw(pd, IBV_MW_TYPE_2); }, ibv_dealloc_mw);
  made(
      "channel", [] { return ibv_create_comp_channel(device()); }, ibv_destroy_comp_channel);
  made(
      "cq", [] { return ibv_create_cq(device(), 16, nullptr, nullptr, 0); }, ibv_destroy_cq);
  ibv_srq_init_attr srq{nullptr, {8, 1, 0}};
  made(
      "srq", [&] { return ibv_create_srq(pd, &srq); }, ibv_destroy_srq);
  ibv_ah_attr address = own_address(1);
  made(
      "ah", [&] { return ibv_create_ah(pd, &address); }, ibv_destroy_ah);
  address.grh.dgid.raw[15] ^= 9;  // nobody answers
  expect_no_point("ah of nobody", [&] { EXPECT_EQ(ibv_create_ah(pd, &address), nullptr); });
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_.get();
    attr.cap = {8, 8, 1, 1, 0};
    attr.qp_type = type;
    made(
        "qp", [&] { return ibv_create_qp(pd, &attr); }, ibv_destroy_qp);
  }
  ibv_alloc_dm_attr dm{4096, 0, 0};
  made(
      "dm", [&] { return ibv_alloc_dm(device(), &dm); }, ibv_free_dm);
  ibv_xrcd_init_attr xrcd{};
  xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd.fd = fileno(std::tmpfile());
  xrcd.oflags = O_CREAT;
  made(
      "xrcd", [&] { return ibv_open_xrcd(device(), &xrcd); }, ibv_close_xrcd);
}

TEST_F(CancelTest, NotWhileAnObjectIsChangedOrAskedFor) {
  pause_a_while();
  expect_no_point("ibv_modify_qp", [&] {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    EXPECT_EQ(ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    EXPECT_EQ(ibv_modify_qp(left_.get(), &attr, kInit), 0);
    connect(left_.get(), right_->qp_num);
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(left_.get(), &attr, IBV_QP_STATE, &init), 0);
  });
  expect_no_point("ibv_rereg_mr", [&] {
    EXPECT_EQ(ibv_rereg_mr(a_.mr(), IBV_REREG_MR_CHANGE_ACCESS, pd_.get(), a_.data(), 64, kAllAccess), 0);
  });
  expect_no_point("ibv_resize_cq", [&] { EXPECT_EQ(ibv_resize_cq(cq_.get(), 512), 0); });
  expect_no_point("queries", [&] {
    int count = 0;
    ibv_free_device_list(ibv_get_device_list(&count));
    ibv_device_attr device_attr{};
    EXPECT_EQ(ibv_query_device(device(), &device_attr), 0);
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(device(), 1, &port), 0);
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(device(), 1, 1, &gid), 0);
  });
  QpOptions options;
  options.type = IBV_QPT_UD;
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
  connect(qp.get(), 0);
  ibv_gid group{};
  std::memcpy(group.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xef\x01\x02\x03", sizeof group.raw);
  expect_no_point("ibv_attach_mcast", [&] { EXPECT_EQ(ibv_attach_mcast(qp.get(), &group, 0), 0); });
  expect_no_point("ibv_detach_mcast", [&] { EXPECT_EQ(ibv_detach_mcast(qp.get(), &group, 0), 0); });
}

}  // namespace
