// What the device says it can do is what it can do: each limit is reached, and the next one is refused.
#include <cerrno>
#include <cstring>
#include <fstream>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class LimitsTest : public testing::Test {
 protected:
  LimitsTest() { EXPECT_EQ(ibv_query_device(device(), &limits_), 0); }

  /// Makes `limit` objects, and no more: the next one fails with ENOMEM.
  template <typename T, typename Make>
  void expect_limit(int limit, Make make) {
    ASSERT_GT(limit, 0);
    std::vector<Owned<T>> all;
    for (int i = 0; i < limit; i++) {
      all.emplace_back(make());
      ASSERT_NE(all.back(), nullptr) << i << " of " << limit << ": " << std::strerror(errno);
    }
    errno = 0;
    EXPECT_EQ(make(), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    all.erase(all.begin() + limit / 2);
    all.emplace_back(make());  // there is room for another in its place
    EXPECT_NE(all.back(), nullptr);
  }
  ibv_qp_init_attr qp_attr() {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {1, 1, 1, 1, 0};
    return attr;
  }
  template <typename Change>
  ibv_qp* make(Change change) {
    ibv_qp_init_attr attr = qp_attr();
    change(attr.cap);
    errno = 0;
    return ibv_create_qp(pd_.get(), &attr);
  }

  ibv_device_attr limits_;
  Owned<ibv_pd> pd_{ibv_alloc_pd(device())};
  Owned<ibv_cq> cq_{ibv_create_cq(device(), 16, nullptr, nullptr, 0)};
};

TEST_F(LimitsTest, Domains) {
  expect_limit<ibv_pd>(limits_.max_pd - 1, [] { return ibv_alloc_pd(device()); });
}

TEST_F(LimitsTest, CompletionQueues) {
  expect_limit<ibv_cq>(limits_.max_cq - 1, [] { return ibv_create_cq(device(), 1, nullptr, nullptr, 0); });
}

TEST_F(LimitsTest, QueuePairs) {
  expect_limit<ibv_qp>(limits_.max_qp, [this] {
    ibv_qp_init_attr attr = qp_attr();
    return ibv_create_qp(pd_.get(), &attr);
  });
}

TEST_F(LimitsTest, SharedReceiveQueues) {
  expect_limit<ibv_srq>(limits_.max_srq, [this] {
    ibv_srq_init_attr attr{};
    attr.attr = {1, 1, 0};
    return ibv_create_srq(pd_.get(), &attr);
  });
}

TEST_F(LimitsTest, Regions) {
  uint8_t byte = 0;
  expect_limit<ibv_mr>(limits_.max_mr, [&] { return ibv_reg_mr(pd_.get(), &byte, 1, 0); });
}

TEST_F(LimitsTest, Windows) {
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    expect_limit<ibv_mw>(limits_.max_mw, [&] { return ibv_alloc_mw(pd_.get(), type); });
  }
}

TEST_F(LimitsTest, AddressHandles) {
  ibv_ah_attr attr = own_address(1);
  expect_limit<ibv_ah>(limits_.max_ah, [&] { return ibv_create_ah(pd_.get(), &attr); });
}

TEST_F(LimitsTest, CompletionsOfAQueue) {
  const Owned<ibv_cq> most(ibv_create_cq(device(), limits_.max_cqe, nullptr, nullptr, 0));
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(most->cqe, limits_.max_cqe);
  EXPECT_EQ(ibv_create_cq(device(), limits_.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_.get(), limits_.max_cqe + 1), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_.get(), limits_.max_cqe), 0);
  EXPECT_EQ(cq_->cqe, limits_.max_cqe);
  EXPECT_EQ(ibv_resize_cq(cq_.get(), 1), 0);
  EXPECT_EQ(ibv_resize_cq(cq_.get(), -1), EINVAL);
}

TEST_F(LimitsTest, WorkRequestsOfAQueuePair) {
  const auto most = static_cast<uint32_t>(limits_.max_qp_wr);
  for (const bool send : {true, false}) {
    const auto size = [&](uint32_t value) {
      return [=](ibv_qp_cap& cap) { (send ? cap.max_send_wr : cap.max_recv_wr) = value; };
    };
    EXPECT_EQ(make(size(most + 1)), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_NE(Owned<ibv_qp>(make(size(most))), nullptr);
  }
  // All of them can be posted.
  QpOptions options;
  options.max_wr = most;
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), cq_.get(), options);
  connect(qp.get(), 0xabcdef);  // no answers: nothing completes for a while
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  for (uint32_t i = 0; i < most; i++) {
    ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0) << i;
    ASSERT_EQ(ibv_post_recv(qp.get(), &receive, &bad_receive), 0) << i;
  }
  EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), ENOMEM);
  EXPECT_EQ(ibv_post_recv(qp.get(), &receive, &bad_receive), ENOMEM);
}

TEST_F(LimitsTest, WorkRequestsOfASharedReceiveQueue) {
  ibv_srq_init_attr attr{};
  attr.attr = {static_cast<uint32_t>(limits_.max_srq_wr), 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &attr));
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(attr.attr.max_wr, static_cast<uint32_t>(limits_.max_srq_wr));
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < limits_.max_srq_wr; i++) ASSERT_EQ(ibv_post_srq_recv(srq.get(), &receive, &bad), 0) << i;
  EXPECT_EQ(ibv_post_srq_recv(srq.get(), &receive, &bad), ENOMEM);
  EXPECT_EQ(bad, &receive);
  for (const ibv_srq_attr wrong :
       {ibv_srq_attr{static_cast<uint32_t>(limits_.max_srq_wr) + 1, 1, 0},
        ibv_srq_attr{1, static_cast<uint32_t>(limits_.max_srq_sge) + 1, 0}, ibv_srq_attr{0, 1, 0}}) {
    attr.attr = wrong;
    EXPECT_EQ(ibv_create_srq(pd_.get(), &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  attr.attr = {1, static_cast<uint32_t>(limits_.max_srq_sge), 0};
  EXPECT_NE(Owned<ibv_srq>(ibv_create_srq(pd_.get(), &attr)), nullptr);
}

/// A SEND, a WRITE and a READ with the maximum number of elements, into as many.
TEST_F(LimitsTest, Elements) {
  const auto most = static_cast<uint32_t>(limits_.max_sge);
  ASSERT_EQ(limits_.max_sge_rd, limits_.max_sge);
  EXPECT_EQ(make([&](ibv_qp_cap& cap) { cap.max_send_sge = most + 1; }), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(make([&](ibv_qp_cap& cap) { cap.max_recv_sge = most + 1; }), nullptr);
  EXPECT_EQ(errno, EINVAL);
  QpOptions options;
  options.max_sge = most;
  const Owned<ibv_qp> left = make_qp(pd_.get(), cq_.get(), cq_.get(), options);
  const Owned<ibv_qp> right = make_qp(pd_.get(), cq_.get(), cq_.get(), options);
  connect(left.get(), right->qp_num);
  connect(right.get(), left->qp_num);
  Buffer a(pd_.get(), 4096);
  Buffer b(pd_.get(), 4096);
  a.fill(3);
  std::vector<ibv_sge> from;
  std::vector<ibv_sge> to;
  for (uint32_t i = 0; i < most; i++) {
    from.push_back(a.sge(i * 64, 10));
    to.push_back(b.sge(i * 64 + 7, 10));
  }
  ibv_recv_wr receive{1, nullptr, to.data(), static_cast<int>(most)};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(right.get(), &receive, &bad_receive), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = from.data();
  wr.num_sge = static_cast<int>(most);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(left.get(), &wr, &bad), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].byte_len, 10 * most);
  for (uint32_t i = 0; i < most; i++) EXPECT_EQ(std::memcmp(a.data() + i * 64, b.data() + i * 64 + 7, 10), 0) << i;

  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = to.data();
  wr.wr.rdma = {a.addr() + 1000, a.rkey()};
  std::memset(b.data(), 0, 4096);
  Buffer big(pd_.get(), 4096);
  ASSERT_EQ(ibv_post_send(left.get(), &wr, &bad), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  for (uint32_t i = 0; i < most; i++) {
    EXPECT_EQ(std::memcmp(a.data() + 1000 + i * 10, b.data() + i * 64 + 7, 10), 0) << i;
  }
}

TEST_F(LimitsTest, InlineBytes) {
  EXPECT_NE(Owned<ibv_qp>(make([](ibv_qp_cap& cap) { cap.max_inline_data = 1024; })), nullptr);
  EXPECT_EQ(make([](ibv_qp_cap& cap) { cap.max_inline_data = 1025; }), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(LimitsTest, ReadsUnderWay) {
  EXPECT_EQ(limits_.max_qp_init_rd_atom, limits_.max_qp_rd_atom);
  EXPECT_EQ(limits_.max_res_rd_atom, limits_.max_qp * limits_.max_qp_rd_atom);
  const auto most = static_cast<uint8_t>(limits_.max_qp_rd_atom);
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 1;
  attr.ah_attr = own_address(1);
  constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.max_dest_rd_atomic = most + 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRtr), EINVAL);
  attr.max_dest_rd_atomic = most;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRtr), 0);
  constexpr int kToRts =
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  attr.qp_state = IBV_QPS_RTS;
  attr.max_rd_atomic = most + 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRts), EINVAL);
  attr.max_rd_atomic = most;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRts), 0);
}

TEST_F(LimitsTest, BytesOfAMessage) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device(), 1, &port), 0);
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), cq_.get(), {});
  connect(qp.get(), 0xabcdef);
  // That much memory need not exist: such a request fails later, one that is too long at once.
  ibv_sge sges[2] = {{0, port.max_msg_sz / 2, 0}, {0, port.max_msg_sz / 2 + 1, 0}};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = sges;
  wr.num_sge = 2;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), EINVAL);
  sges[1].length--;
  EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(LimitsTest, OfMulticast) {
  EXPECT_EQ(limits_.max_mcast_grp, 256);
  EXPECT_EQ(limits_.max_total_mcast_qp_attach, 256 * 256);
  ASSERT_EQ(limits_.max_mcast_qp_attach, 256);
  ibv_gid group{};
  group.raw[10] = group.raw[11] = 0xff;
  group.raw[12] = 239;
  std::vector<Owned<ibv_qp>> qps;
  QpOptions options;
  options.type = IBV_QPT_UD;
  for (int i = 0; i <= limits_.max_mcast_qp_attach; i++) {
    qps.push_back(make_qp(pd_.get(), cq_.get(), cq_.get(), options));
    ASSERT_NE(qps.back(), nullptr);
    EXPECT_EQ(ibv_attach_mcast(qps.back().get(), &group, 0), i < limits_.max_mcast_qp_attach ? 0 : ENOMEM) << i;
  }
  for (int i = 0; i < limits_.max_mcast_qp_attach; i++) EXPECT_EQ(ibv_detach_mcast(qps[i].get(), &group, 0), 0);
}

TEST_F(LimitsTest, WhatIsNotThereIsZero) {
  EXPECT_EQ(limits_.max_ee, 0);
  EXPECT_EQ(limits_.max_rdd, 0);
  EXPECT_EQ(limits_.max_raw_ipv6_qp, 0);
  EXPECT_EQ(limits_.max_raw_ethy_qp, limits_.max_qp);
  EXPECT_EQ(limits_.max_fmr, 0);
  EXPECT_EQ(limits_.max_pkeys, 1);
  EXPECT_EQ(limits_.phys_port_cnt, 1);
  // Queue pairs cannot be resized, and paths do not migrate.
  EXPECT_EQ(
      limits_.device_cap_flags & (IBV_DEVICE_RESIZE_MAX_WR | IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_MEM_WINDOW_TYPE_2A),
      0u);
  constexpr unsigned kThere = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN |
                              IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SYS_IMAGE_GUID |
                              IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC;
  EXPECT_EQ(limits_.device_cap_flags & kThere, kThere);
}

/// Resident memory of this process, in bytes.
size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

/// Unused entries cost nothing: programs ask for the maximum because they can.
TEST_F(LimitsTest, AQueuePairAtItsLimitsTakesLittleMemory) {
  const size_t before = resident_bytes();
  QpOptions options;
  options.max_wr = static_cast<uint32_t>(limits_.max_qp_wr);
  options.max_sge = static_cast<uint32_t>(limits_.max_sge);
  options.max_inline = 1024;
  options.send_ops = IBV_QP_EX_WITH_SEND;
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), cq_.get(), options);
  EXPECT_LT(resident_bytes(), before + (4u << 20));
}

}  // namespace
