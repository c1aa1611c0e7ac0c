// Functions that return an error's number say it in errno too: programs ask perror.
#include <cerrno>
#include <functional>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class ErrnoTest : public PairTest {
 protected:
  struct Case {
    const char* name;
    int error;
    std::function<ssize_t()> call;
  };
  void walk(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      errno = 0;
      EXPECT_EQ(c.call(), c.error) << c.name;
      EXPECT_EQ(errno, c.error) << c.name;
    }
  }
};

TEST_F(ErrnoTest, OfQueries) {
  ibv_port_attr port;
  ibv_gid_entry entry;
  ibv_device_attr_ex attr;
  ibv_query_device_ex_input input{1};
  ibv_values_ex values{};
  values.comp_mask = 1u << 7;
  verbs_context* verbs = verbs_get_ctx(device());
  walk(
      {{"ibv_query_port", EINVAL, [&] { return ibv_query_port(device(), 7, &port); }},
       {"ibv_query_port, the symbol", EINVAL,
        [&] { return (ibv_query_port)(device(), 2, reinterpret_cast<_compat_ibv_port_attr*>(&port)); }},
       {"query_device_ex, input", EINVAL, [&] { return verbs->query_device_ex(device(), &input, &attr, sizeof attr); }},
       {"query_device_ex, size", EINVAL, [&] { return verbs->query_device_ex(device(), nullptr, &attr, 8); }},
       {"ibv_query_rt_values_ex", EOPNOTSUPP, [&] { return ibv_query_rt_values_ex(device(), &values); }},
       {"ibv_query_gid_ex, index", EINVAL, [&] { return ibv_query_gid_ex(device(), 1, 9999, &entry, 0); }},
       {"ibv_query_gid_ex, hole", ENODATA, [&] { return ibv_query_gid_ex(device(), 1, 20, &entry, 0); }},
       {"ibv_query_gid_ex, flags", EOPNOTSUPP, [&] { return ibv_query_gid_ex(device(), 1, 0, &entry, 1); }},
       {"ibv_query_gid_table, flags", EOPNOTSUPP, [&] { return -ibv_query_gid_table(device(), &entry, 1, 1); }},
       {"ibv_query_gid_table, room", EINVAL, [&] { return -ibv_query_gid_table(device(), &entry, 1, 0); }}});
}

TEST_F(ErrnoTest, OfObjectsInUse) {
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &srq_attr));
  Owned<ibv_comp_channel> channel(ibv_create_comp_channel(device()));
  const Owned<ibv_cq> cq(ibv_create_cq(device(), 4, nullptr, channel.get(), 0));
  QpOptions options;
  options.srq = srq.get();
  make_pair(options);
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {b_.mr(), b_.addr(), 8, IBV_ACCESS_REMOTE_READ};
  ASSERT_EQ(ibv_bind_mw(left_.get(), mw.get(), &bind), 0);
  poll(cq_.get(), 1);
  walk({{"ibv_dealloc_pd", EBUSY, [&] { return ibv_dealloc_pd(pd_.get()); }},
        {"ibv_dereg_mr", EBUSY, [&] { return ibv_dereg_mr(b_.mr()); }},
        {"ibv_destroy_cq", EBUSY, [&] { return ibv_destroy_cq(cq_.get()); }},
        {"ibv_destroy_srq", EBUSY, [&] { return ibv_destroy_srq(srq.get()); }},
        {"ibv_destroy_comp_channel", EBUSY, [&] { return ibv_destroy_comp_channel(channel.get()); }}});
  left_.reset();
  right_.reset();
}

TEST_F(ErrnoTest, OfChanges) {
  make_pair();
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &srq_attr));
  ibv_srq_attr over{0, 0, srq_attr.attr.max_wr + 1};
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  ibv_qp_attr far = attr;
  far.ah_attr = own_address(1);
  far.ah_attr.grh.sgid_index = 30;
  far.path_mtu = IBV_MTU_256;
  const Owned<ibv_qp> fresh = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  far.qp_state = IBV_QPS_RTR;
  constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ibv_ece ece{};
  walk({{"ibv_modify_qp, transition", EINVAL, [&] { return ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE); }},
        {"ibv_modify_qp, size", EOPNOTSUPP, [&] { return ibv_modify_qp(left_.get(), &attr, IBV_QP_CAP); }},
        {"ibv_modify_qp, path", EOPNOTSUPP, [&] { return ibv_modify_qp(left_.get(), &attr, IBV_QP_ALT_PATH); }},
        {"ibv_modify_qp, route", ENETUNREACH, [&] { return ibv_modify_qp(fresh.get(), &far, kToRtr); }},
        {"ibv_modify_srq, limit", EINVAL, [&] { return ibv_modify_srq(srq.get(), &over, IBV_SRQ_LIMIT); }},
        {"ibv_modify_srq, size", EINVAL, [&] { return ibv_modify_srq(srq.get(), &over, IBV_SRQ_MAX_WR); }},
        {"ibv_modify_srq, mask", EINVAL, [&] { return ibv_modify_srq(srq.get(), &over, 1 << 5); }},
        {"ibv_resize_cq", EINVAL, [&] { return ibv_resize_cq(cq_.get(), 0); }},
        {"ibv_set_ece, nobody's", EOPNOTSUPP, [&] { return ibv_set_ece(left_.get(), &ece); }},
        {"ibv_attach_mcast", EINVAL, [&] { return ibv_attach_mcast(left_.get(), nullptr, 0); }}});
  // Functions with numbers of their own.
  errno = 0;
  EXPECT_EQ(ibv_rereg_mr(b_.mr(), 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  ibv_gid gid;
  errno = 0;
  EXPECT_EQ(ibv_query_gid(device(), 1, -1, &gid), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(ErrnoTest, OfPosts) {
  QpOptions options;
  options.send_ops = IBV_QP_EX_WITH_SEND;
  make_pair(options);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {1, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &srq_attr));
  ibv_sge sges[40] = {};
  ibv_send_wr send{};
  send.sg_list = sges;
  send.num_sge = 40;
  ibv_recv_wr receive{0, nullptr, sges, 40};
  ibv_send_wr* bad_send;
  ibv_recv_wr* bad_receive;
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  const Owned<ibv_qp> fresh = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  ibv_mw_bind bind{};
  bind.bind_info = {b_.mr(), b_.addr(), 8, IBV_ACCESS_REMOTE_READ};
  ibv_mw_bind on_demand = bind;
  on_demand.bind_info.mw_access_flags = IBV_ACCESS_ON_DEMAND;
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(left_.get());
  ibv_ah_attr nowhere = own_address(1);
  nowhere.port_num = 2;
  uint8_t mac[6];
  walk({{"ibv_post_send", EINVAL, [&] { return ibv_post_send(left_.get(), &send, &bad_send); }},
        {"ibv_post_recv", EINVAL, [&] { return ibv_post_recv(left_.get(), &receive, &bad_receive); }},
        {"ibv_post_srq_recv", EINVAL, [&] { return ibv_post_srq_recv(srq.get(), &receive, &bad_receive); }},
        {"ibv_bind_mw", EINVAL, [&] { return ibv_bind_mw(fresh.get(), mw.get(), &bind); }},
        {"ibv_bind_mw, on demand", EINVAL, [&] { return ibv_bind_mw(left_.get(), mw.get(), &on_demand); }},
        {"ibv_wr_complete", EINVAL,
         [&] {
           ibv_wr_start(extended);
           ibv_wr_send(extended);
           ibv_wr_set_sge_list(extended, 40, sges);
           return ibv_wr_complete(extended);
         }},
        {"ibv_resolve_eth_l2_from_gid", EINVAL,
         [&] { return ibv_resolve_eth_l2_from_gid(device(), &nowhere, mac, nullptr); }}});
  // An empty queue is no failure.
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  ibv_cq_ex* cq = ibv_create_cq_ex(device(), &attr);
  const Owned<ibv_cq> owner(ibv_cq_ex_to_cq(cq));
  ibv_poll_cq_attr poll_attr{};
  errno = 0;
  EXPECT_EQ(ibv_start_poll(cq, &poll_attr), ENOENT);
  EXPECT_EQ(errno, 0);
  poll_attr.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(cq, &poll_attr), EINVAL);
  EXPECT_EQ(errno, EINVAL);
}

/// As programs that test devices do: they write to a public structure, and check whether the device notices.
class NotFoundTest : public ErrnoTest {
 protected:
  /// Makes each call while `handle` is wrong.
  void with_wrong(uint32_t& handle, const std::vector<Case>& cases) {
    const uint32_t own = handle;
    handle ^= 0xdeadbeef;
    walk(cases);
    handle = own;
  }
  /// For a function that returns an object: the errno when it returns none.
  template <typename T>
  static int none(T* made) {
    const int error = errno;
    if (made == nullptr) return error;
    Owned<T> owned(made);
    return 0;
  }
};

TEST_F(NotFoundTest, ObjectsWithAnothersHandle) {
  make_pair();
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &srq_attr));
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  ibv_ah_attr here = own_address(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pd_.get(), &here));
  ASSERT_NE(ah, nullptr);
  ibv_srq_attr sizes{};
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ibv_qp_init_attr init{};
  ibv_pd* const pd = pd_.get();
  with_wrong(ah->handle, {{"ibv_destroy_ah", ENOENT, [&] { return ibv_destroy_ah(ah.get()); }}});
  with_wrong(mw->handle, {{"ibv_dealloc_mw", ENOENT, [&] { return ibv_dealloc_mw(mw.get()); }}});
  with_wrong(b_.mr()->handle, {{"ibv_dereg_mr", ENOENT, [&] { return ibv_dereg_mr(b_.mr()); }}});
  with_wrong(cq_->handle, {{"ibv_destroy_cq", ENOENT, [&] { return ibv_destroy_cq(cq_.get()); }},
                           {"ibv_resize_cq", ENOENT, [&] { return ibv_resize_cq(cq_.get(), 300); }},
                           {"ibv_req_notify_cq", ENOENT, [&] { return ibv_req_notify_cq(cq_.get(), 0); }}});
  with_wrong(srq->handle,
             {{"ibv_destroy_srq", ENOENT, [&] { return ibv_destroy_srq(srq.get()); }},
              {"ibv_query_srq", ENOENT, [&] { return ibv_query_srq(srq.get(), &sizes); }},
              {"ibv_modify_srq", ENOENT, [&] { return ibv_modify_srq(srq.get(), &sizes, IBV_SRQ_LIMIT); }}});
  with_wrong(left_->handle,
             {{"ibv_destroy_qp", ENOENT, [&] { return ibv_destroy_qp(left_.get()); }},
              {"ibv_query_qp", ENOENT, [&] { return ibv_query_qp(left_.get(), &attr, IBV_QP_STATE, &init); }},
              {"ibv_modify_qp", ENOENT, [&] { return ibv_modify_qp(left_.get(), &attr, IBV_QP_STATE); }}});
  with_wrong(pd->handle,
             {{"ibv_dealloc_pd", ENOENT, [&] { return ibv_dealloc_pd(pd); }},
              {"ibv_reg_mr", ENOENT, [&] { return none(ibv_reg_mr(pd, b_.data(), 8, IBV_ACCESS_LOCAL_WRITE)); }},
              {"ibv_alloc_mw", ENOENT, [&] { return none(ibv_alloc_mw(pd, IBV_MW_TYPE_1)); }},
              {"ibv_create_ah", ENOENT, [&] { return none(ibv_create_ah(pd, &here)); }},
              {"ibv_create_srq", ENOENT, [&] { return none(ibv_create_srq(pd, &srq_attr)); }}});
  // None of the calls had any effect.
  EXPECT_EQ(left_->state, IBV_QPS_RTS);
  EXPECT_EQ(cq_->cqe, 256);
}

TEST_F(NotFoundTest, WhatAQueuePairIsMadeOf) {
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &srq_attr));
  ibv_qp_init_attr init{};
  init.send_cq = cq_.get();
  init.recv_cq = recv_cq_.get();
  init.srq = srq.get();
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  const std::vector<Case> refused = {{"ibv_create_qp", ENOENT, [&] { return none(ibv_create_qp(pd_.get(), &init)); }}};
  for (uint32_t* handle : {&pd_->handle, &cq_->handle, &recv_cq_->handle, &srq->handle}) with_wrong(*handle, refused);
  walk({{"ibv_create_qp, as it was", 0, [&] { return none(ibv_create_qp(pd_.get(), &init)); }}});
}

TEST_F(NotFoundTest, AnObjectOfAnotherOpenDevice) {
  ibv_context* const other = ibv_open_device(device()->device);
  ASSERT_NE(other, nullptr);
  pd_->context = other;
  walk({{"ibv_dealloc_pd", ENOENT, [&] { return ibv_dealloc_pd(pd_.get()); }}});
  pd_->context = device();
  EXPECT_EQ(ibv_close_device(other), 0);
}

}  // namespace
