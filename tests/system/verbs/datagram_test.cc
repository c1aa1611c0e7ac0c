// UD: address handles, the GRH area, replies.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kGrhBytes = 40;

class DatagramTest : public PairTest {
 protected:
  void SetUp() override {
    QpOptions options;
    options.type = IBV_QPT_UD;
    left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
    right_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
    connect(left_.get(), 0);
    connect(right_.get(), 0);
  }
  int send(ibv_qp* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey, uint32_t length) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {ah, qpn, qkey};
    return post_send(qp, wr, a_.sge(0, length));
  }
};

/// A number of more than 24 bits once led to a look beyond the end of a table.
TEST_F(DatagramTest, ANumberHas24Bits) {
  ibv_ah_attr attr = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(send(left_.get(), ah.get(), 0xdeadbeef, kQkey, 10), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 2048)), 0);
  ASSERT_EQ(send(left_.get(), ah.get(), right_->qp_num | 0xde000000, kQkey, 10), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 10 + kGrhBytes);
}

/// Any sender that knows the Q_Key may send: a datagram too long for a receive is lost, and the receive stays.
TEST_F(DatagramTest, OneThatIsTooLongLeavesTheReceive) {
  ibv_ah_attr attr = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, kGrhBytes + 100)), 0);
  ASSERT_EQ(send(left_.get(), ah.get(), right_->qp_num, kQkey, 101), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  expect_nothing(recv_cq_.get());
  ASSERT_EQ(send(left_.get(), ah.get(), right_->qp_num, kQkey, 100), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  const ibv_wc wc = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, kGrhBytes + 100);
}

TEST_F(DatagramTest, OneThatIsTooLongEndsAReceiveOfASharedQueue) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &init));
  ASSERT_NE(srq, nullptr);
  QpOptions options;
  options.type = IBV_QPT_UD;
  options.srq = srq.get();
  const Owned<ibv_qp> shares = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
  connect(shares.get(), 0);
  ibv_sge sges[] = {b_.sge(0, kGrhBytes + 100), b_.sge(2048, kGrhBytes + 200)};
  for (uint64_t id = 0; id < 2; id++) {
    ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &sges[id], .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
  }
  ibv_ah_attr attr = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
  ASSERT_NE(ah, nullptr);
  for (const ibv_wc_status status : {IBV_WC_LOC_LEN_ERR, IBV_WC_SUCCESS}) {
    ASSERT_EQ(send(left_.get(), ah.get(), shares->qp_num, kQkey, 101), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(poll(recv_cq_.get(), 1)[0].status, status);
  }
}

TEST_F(DatagramTest, ThereAndBack) {
  for (const int gid_index : {0, 1}) {  // IPv6 and IPv4
    ibv_ah_attr attr = own_address(gid_index);
    const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
    ASSERT_NE(ah, nullptr);
    a_.fill(static_cast<uint8_t>(gid_index));
    ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 2048)), 0);
    ASSERT_EQ(send(left_.get(), ah.get(), right_->qp_num, kQkey, 1000), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
    ibv_wc wc = poll(recv_cq_.get(), 1)[0];
    EXPECT_EQ(wc.byte_len, 1000 + kGrhBytes);
    EXPECT_EQ(wc.src_qp, left_->qp_num);
    EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(std::memcmp(b_.data() + kGrhBytes, a_.data(), 1000), 0);

    auto* grh = reinterpret_cast<ibv_grh*>(b_.data());
    ibv_ah_attr back;
    ASSERT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, grh, &back), 0);
    EXPECT_EQ(wc.sl, gid_index == 0 ? 1 : 2);  // the kind of IP header, as RoCE drivers report it
    EXPECT_EQ(back.sl, 0);                     // which is no priority for the answer
    EXPECT_EQ(back.is_global, 1);
    EXPECT_EQ(back.grh.sgid_index, gid_index);
    EXPECT_EQ(std::memcmp(back.grh.dgid.raw, attr.grh.dgid.raw, 16), 0);
    const Owned<ibv_ah> reply(ibv_create_ah_from_wc(pd_.get(), &wc, grh, 1));
    ASSERT_NE(reply, nullptr);
    ASSERT_EQ(post_recv(left_.get(), 2, b_.sge(4096, 2048)), 0);
    ASSERT_EQ(send(right_.get(), reply.get(), wc.src_qp, kQkey, 10), 0);
    EXPECT_EQ(poll(recv_cq_.get(), 1)[0].wr_id, 2u);
    poll(cq_.get(), 1);
  }
}

TEST_F(DatagramTest, WrongQkeyArrivesNowhere) {
  ibv_ah_attr attr = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 2048)), 0);
  ASSERT_EQ(send(left_.get(), ah.get(), right_->qp_num, kQkey + 1, 10), 0);
  poll(cq_.get(), 1);
  expect_nothing(recv_cq_.get());
}

TEST_F(DatagramTest, BadAddressesAreRefused) {
  ibv_ah_attr attr = own_address(1);
  attr.port_num = 2;
  EXPECT_EQ(ibv_create_ah(pd_.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = own_address(1);
  for (const uint8_t hole : {uint8_t{2}, uint8_t{200}}) {
    attr.grh.sgid_index = hole;
    EXPECT_EQ(ibv_create_ah(pd_.get(), &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(send(left_.get(), nullptr, right_->qp_num, kQkey, 10), EINVAL);
}

TEST_F(DatagramTest, ADomainWithHandlesIsBusy) {
  Owned<ibv_pd> pd(ibv_alloc_pd(device()));
  ibv_ah_attr attr = own_address(1);
  Owned<ibv_ah> first(ibv_create_ah(pd.get(), &attr));
  Owned<ibv_ah> second(ibv_create_ah(pd.get(), &attr));
  EXPECT_EQ(first->pd, pd.get());
  EXPECT_EQ(first->context, device());
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  first.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  second.reset();
}

/// Answers have the sender's traffic class: over IPv4 and IPv6.
TEST_F(DatagramTest, AHandleFromACompletionKeepsTheTrafficClass) {
  for (const int gid_index : {0, 1}) {
    ibv_ah_attr attr = own_address(gid_index);
    attr.grh.traffic_class = 0x68;
    attr.grh.flow_label = 0x12345;
    const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
    ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 2048)), 0);
    ASSERT_EQ(send(left_.get(), ah.get(), right_->qp_num, kQkey, 10), 0);
    poll(cq_.get(), 1);
    ibv_wc wc = poll(recv_cq_.get(), 1)[0];
    auto* grh = reinterpret_cast<ibv_grh*>(b_.data());
    ibv_ah_attr back;
    ASSERT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, grh, &back), 0);
    EXPECT_EQ(back.grh.traffic_class, 0x68);
    EXPECT_EQ(back.grh.flow_label, gid_index == 0 ? 0x12345u : 0u);
    EXPECT_EQ(back.port_num, 1);
    EXPECT_EQ(back.grh.hop_limit, 64);
    EXPECT_EQ(back.src_path_bits, 0);
    EXPECT_EQ(back.dlid, 0);
    // On the wire, too: the header of the answer has it.
    const Owned<ibv_ah> reply(ibv_create_ah(pd_.get(), &back));
    ASSERT_EQ(post_recv(left_.get(), 2, b_.sge(4096, 2048)), 0);
    ASSERT_EQ(send(right_.get(), reply.get(), left_->qp_num, kQkey, 10), 0);
    poll(cq_.get(), 1);
    poll(recv_cq_.get(), 1);
    const uint8_t* area = b_.data() + 4096;
    EXPECT_EQ(gid_index == 1 ? area[21] : ((area[0] & 0xf) << 4 | area[1] >> 4), 0x68);
  }
}

TEST_F(DatagramTest, AHandleFromABadCompletionIsRefused) {
  ibv_wc wc{};
  ibv_ah_attr attr;
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, nullptr, &attr), 0);  // no GRH: by LID
  EXPECT_EQ(attr.is_global, 0);
  wc.wc_flags = IBV_WC_GRH;
  ibv_grh grh{};
  errno = 0;
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, nullptr, &attr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, &grh, &attr), -1);  // neither version
  grh.version_tclass_flow = htonl(6u << 28);
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, &grh, &attr), -1);  // not to this host
  ASSERT_EQ(ibv_query_gid(device(), 1, 0, &grh.dgid), 0);
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 2, &wc, &grh, &attr), -1);
  EXPECT_EQ(ibv_create_ah_from_wc(pd_.get(), &wc, &grh, 2), nullptr);
  grh.dgid.raw[0] = 0xff;  // a group: the first address of its family
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(attr.grh.sgid_index, 0);
}

TEST_F(DatagramTest, AHandleMayGoWhileItsDatagramsWait) {
  ibv_ah_attr attr = own_address(1);
  for (int round = 0; round < 3; round++) {
    Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
    ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 2048)), 0);
    ASSERT_EQ(send(left_.get(), ah.get(), right_->qp_num, kQkey, 100), 0);
    ah.reset();
    EXPECT_EQ(poll(recv_cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  }
}

TEST_F(DatagramTest, OnlySendsAreForDatagrams) {
  ibv_ah_attr attr = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                     IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW}) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.wr.ud = {ah.get(), right_->qp_num, kQkey};
    EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), EINVAL) << opcode;
  }
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 2048)), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htonl(77);
  wr.wr.ud = {ah.get(), right_->qp_num, kQkey};
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  const ibv_wc wc = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(wc.imm_data, htonl(77));
  EXPECT_NE(wc.wc_flags & IBV_WC_WITH_IMM, 0u);
}

TEST_F(DatagramTest, NobodyAnswers) {
  ibv_ah_attr attr = own_address(1);
  attr.grh.dgid.raw[15] = 200;
  ibv_pd* const pd = ibv_alloc_pd(device());
  EXPECT_EQ(ibv_create_ah(pd, &attr), nullptr);
  EXPECT_EQ(errno, ETIMEDOUT);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0) << "nothing is left in it";
}

TEST_F(DatagramTest, ExtendedInterface) {
  QpOptions options;
  options.type = IBV_QPT_UD;
  options.send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
  connect(qp.get(), 0);
  ibv_ah_attr attr = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &attr));
  ASSERT_EQ(post_recv(right_.get(), 3, b_.sge(0, 2048)), 0);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp.get());
  ibv_wr_start(extended);
  extended->wr_flags = 0;
  ibv_wr_send(extended);
  ibv_wr_set_ud_addr(extended, ah.get(), right_->qp_num, kQkey);
  ibv_wr_set_sge(extended, a_.lkey(), a_.addr(), 100);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 100 + kGrhBytes);
}

TEST_F(DatagramTest, MacOfAGid) {
  ibv_ah_attr attr = own_address(1);
  uint8_t mac[6] = {};
  uint16_t vlan = 0;
  ASSERT_EQ(ibv_resolve_eth_l2_from_gid(device(), &attr, mac, &vlan), 0);
  ibv_gid link_local;
  ASSERT_EQ(ibv_query_gid(device(), 1, 0, &link_local), 0);
  EXPECT_EQ(mac[5], link_local.raw[15]);
  EXPECT_EQ(mac[0] ^ 2, link_local.raw[8]);
  EXPECT_EQ(vlan, 0xffff);
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(device(), &attr, mac, nullptr), 0);
  attr.grh.sgid_index = 31;
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(device(), &attr, mac, &vlan), EINVAL);
}

}  // namespace
