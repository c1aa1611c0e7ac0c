// Multicast: queue pairs attached to groups.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

constexpr uint32_t kGroupQkey = 0x11111111;
constexpr uint32_t kHeaderBytes = 40;
constexpr uint32_t kGroupQpn = 0xFFFFFF;

ibv_gid group_gid(const char* text) {
  ibv_gid gid{};
  EXPECT_EQ(inet_pton(AF_INET6, text, gid.raw), 1) << text;
  return gid;
}

class MulticastTest : public PairTest {
 protected:
  void SetUp() override {
    QpOptions options;
    options.type = IBV_QPT_UD;
    left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
    right_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
    connect(left_.get(), 0);
    connect(right_.get(), 0);
  }
  int send(ibv_ah* ah, uint32_t length) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {ah, kGroupQpn, kGroupQkey};
    return post_send(left_.get(), wr, a_.sge(0, length));
  }
  ibv_ah_attr to_group(const ibv_gid& group, int gid_index) {
    ibv_ah_attr attr = own_address(gid_index);
    attr.grh.dgid = group;
    return attr;
  }
};

TEST_F(MulticastTest, AQueuePairThatIsAttachedStays) {
  const ibv_gid one = group_gid("::ffff:239.1.2.3");
  const ibv_gid other = group_gid("ff0e::1:2");
  EXPECT_EQ(ibv_attach_mcast(left_.get(), &one, 0), 0);
  EXPECT_EQ(ibv_attach_mcast(left_.get(), &other, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(left_.get()), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(left_.get(), &one, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(left_.get()), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(left_.get(), &other, 0), 0);
  left_.reset();
}

/// The flag is the sender's: other members get its datagrams, and it gets theirs.
TEST_F(MulticastTest, AQueuePairNeedNotHearItself) {
  ibv_qp_init_attr_ex attr{};
  attr.pd = pd_.get();
  attr.send_cq = cq_.get();
  attr.recv_cq = recv_cq_.get();
  attr.cap = {16, 16, 4, 4, 0};
  attr.qp_type = IBV_QPT_UD;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  left_.reset(ibv_create_qp_ex(device(), &attr));
  ASSERT_NE(left_, nullptr);
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qkey = kGroupQkey;
  ASSERT_EQ(ibv_modify_qp(left_.get(), &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
  connect(left_.get(), 0);
  const ibv_gid group = group_gid("::ffff:239.1.2.3");
  ibv_ah_attr address = to_group(group, 1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &address));
  for (ibv_qp* const qp : {left_.get(), right_.get()}) {
    ASSERT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
    for (uint64_t i = 0; i < 2; i++) ASSERT_EQ(post_recv(qp, qp->qp_num, b_.sge(4096 * i, 2048)), 0);
  }
  ASSERT_EQ(send(ah.get(), 100), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].qp_num, right_->qp_num);
  expect_nothing(recv_cq_.get());
  std::swap(left_, right_);
  ASSERT_EQ(send(ah.get(), 100), 0);
  for (const ibv_wc& wc : poll(recv_cq_.get(), 2)) EXPECT_EQ(wc.src_qp, left_->qp_num);
  ASSERT_EQ(ibv_detach_mcast(left_.get(), &group, 0), 0);
  ASSERT_EQ(ibv_detach_mcast(right_.get(), &group, 0), 0);
}

TEST_F(MulticastTest, OnlyDatagramsHaveThatFlag) {
  ibv_qp_init_attr_ex attr{};
  attr.pd = pd_.get();
  attr.send_cq = attr.recv_cq = cq_.get();
  attr.cap = {1, 1, 1, 1, 0};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_RAW_PACKET}) {
    attr.qp_type = type;
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(device(), &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  attr.qp_type = IBV_QPT_UD;
  attr.create_flags |= IBV_QP_CREATE_SCATTER_FCS;
  EXPECT_EQ(ibv_create_qp_ex(device(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(MulticastTest, EveryQueuePairOfTheGroupGetsIt) {
  for (const int gid_index : {0, 1}) {
    const ibv_gid group = group_gid(gid_index == 0 ? "ff0e::4791" : "::ffff:239.1.2.3");
    ibv_ah_attr attr = to_group(group, gid_index);
    const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
    ASSERT_NE(ah, nullptr);
    ASSERT_EQ(ibv_attach_mcast(left_.get(), &group, 0), 0);
    ASSERT_EQ(ibv_attach_mcast(right_.get(), &group, 0), 0);
    a_.fill(static_cast<uint8_t>(gid_index + 5));
    ASSERT_EQ(post_recv(left_.get(), 1, b_.sge(0, 2048)), 0);
    ASSERT_EQ(post_recv(right_.get(), 2, b_.sge(4096, 2048)), 0);
    ASSERT_EQ(send(ah.get(), 700), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
    for (const ibv_wc& wc : poll(recv_cq_.get(), 2)) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.byte_len, 700 + kHeaderBytes);
      EXPECT_EQ(wc.src_qp, left_->qp_num) << "its own sender, too";
      EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0u);
    }
    for (const size_t at : {0u, 4096u}) {
      EXPECT_EQ(std::memcmp(b_.data() + at + kHeaderBytes, a_.data(), 700), 0);
      const size_t destination = at + (gid_index == 0 ? 24 : 36);
      EXPECT_EQ(std::memcmp(b_.data() + destination, group.raw + (gid_index == 0 ? 0 : 12), gid_index == 0 ? 16 : 4),
                0);
    }
    ASSERT_EQ(ibv_detach_mcast(left_.get(), &group, 0), 0);
    ASSERT_EQ(ibv_detach_mcast(right_.get(), &group, 0), 0);
    ASSERT_EQ(post_recv(right_.get(), 3, b_.sge(4096, 2048)), 0);
    ASSERT_EQ(send(ah.get(), 10), 0);
    poll(cq_.get(), 1);
    expect_nothing(recv_cq_.get());
    left_ = {};
    right_ = {};
    SetUp();
  }
}

TEST_F(MulticastTest, ErrorsAreTheKernels) {
  const ibv_gid group = group_gid("::ffff:239.1.2.3"), host = group_gid("::ffff:10.0.0.9"), link = group_gid("fe80::1");
  EXPECT_EQ(ibv_attach_mcast(left_.get(), &host, 0), EINVAL);
  EXPECT_EQ(ibv_attach_mcast(left_.get(), &link, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(left_.get(), &group, 0), EINVAL);
  EXPECT_EQ(ibv_attach_mcast(left_.get(), &group, 0xC000), 0) << "on Ethernet a LID says nothing";
  EXPECT_EQ(ibv_attach_mcast(left_.get(), &group, 0xC000), 0);
  EXPECT_EQ(ibv_detach_mcast(left_.get(), &group, 0xC000), 0);
  EXPECT_EQ(ibv_detach_mcast(left_.get(), &group, 0xC000), EINVAL);
  const Owned<ibv_qp> connected = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  EXPECT_EQ(ibv_attach_mcast(connected.get(), &group, 0), EINVAL);
}

}  // namespace
