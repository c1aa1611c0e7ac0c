// Every call with arguments that do not fit: what it returns, and that errno says the same.
#include <cerrno>
#include <functional>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class ArgumentsTest : public PairTest {
 protected:
  struct Number {
    const char* name;
    int error;
    std::function<int()> call;
  };
  struct Pointer {
    const char* name;
    int error;
    std::function<const void*()> call;
  };
  static void walk(const std::vector<Number>& cases) {
    for (const Number& c : cases) {
      errno = 0;
      EXPECT_EQ(c.call(), c.error) << c.name;
      EXPECT_EQ(errno, c.error) << c.name;
    }
  }
  static void walk(const std::vector<Pointer>& cases) {
    for (const Pointer& c : cases) {
      errno = 0;
      EXPECT_EQ(c.call(), nullptr) << c.name;
      EXPECT_EQ(errno, c.error) << c.name;
    }
  }
  ibv_qp_init_attr qp_init() {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_.get();
    attr.cap = {4, 4, 1, 1, 0};
    attr.qp_type = IBV_QPT_RC;
    return attr;
  }
  template <typename Change>
  std::function<const void*()> qp_with(Change change) {
    return [this, change] {
      ibv_qp_init_attr attr = qp_init();
      change(attr);
      return ibv_create_qp(pd_.get(), &attr);
    };
  }
  template <typename Change>
  std::function<const void*()> qp_ex_with(Change change) {
    return [this, change] {
      ibv_qp_init_attr_ex attr{};
      attr.send_cq = attr.recv_cq = cq_.get();
      attr.cap = {4, 4, 1, 1, 0};
      attr.qp_type = IBV_QPT_RC;
      attr.pd = pd_.get();
      attr.comp_mask = IBV_QP_INIT_ATTR_PD;
      change(attr);
      return ibv_create_qp_ex(device(), &attr);
    };
  }
};

TEST_F(ArgumentsTest, OfQueuePairs) {
  walk(std::vector<Pointer>{
      {"no queue for sends", EINVAL, qp_with([](auto& a) { a.send_cq = nullptr; })},
      {"no queue for receives", EINVAL, qp_with([](auto& a) { a.recv_cq = nullptr; })},
      {"type 0", EOPNOTSUPP, qp_with([](auto& a) { a.qp_type = static_cast<ibv_qp_type>(0); })},
      {"XRC target without a domain", EINVAL, qp_with([](auto& a) { a.qp_type = IBV_QPT_XRC_RECV; })},
      {"a vendor's", EOPNOTSUPP, qp_with([](auto& a) { a.qp_type = IBV_QPT_DRIVER; })},
      {"sends", EINVAL, qp_with([](auto& a) { a.cap.max_send_wr = UINT32_MAX; })},
      {"receives", EINVAL, qp_with([](auto& a) { a.cap.max_recv_wr = UINT32_MAX; })},
      {"send elements", EINVAL, qp_with([](auto& a) { a.cap.max_send_sge = 33; })},
      {"receive elements", EINVAL, qp_with([](auto& a) { a.cap.max_recv_sge = UINT32_MAX; })},
      {"inline", EINVAL, qp_with([](auto& a) { a.cap.max_inline_data = UINT32_MAX; })},
      {"no domain", EINVAL, qp_ex_with([](auto& a) { a.comp_mask = 0; })},
      {"null domain", EINVAL, qp_ex_with([](auto& a) { a.pd = nullptr; })},
      {"unknown bits", EOPNOTSUPP, qp_ex_with([](auto& a) { a.comp_mask |= 1u << 30; })},
      {"XRC domain", EOPNOTSUPP, qp_ex_with([](auto& a) { a.comp_mask |= IBV_QP_INIT_ATTR_XRCD; })},
      {"flags", EOPNOTSUPP, qp_ex_with([](auto& a) {
         a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
         a.create_flags = IBV_QP_CREATE_SCATTER_FCS;
       })},
      {"operations", EOPNOTSUPP, qp_ex_with([](auto& a) {
         a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
         a.send_ops_flags = uint64_t{1} << 50;
       })}});
}

TEST_F(ArgumentsTest, OfCompletionQueues) {
  ibv_cq_init_attr_ex attr{};
  const auto ex_with = [&](auto change) {
    return [&attr, change]() -> const void* {
      attr = {};
      attr.cqe = 4;
      change(attr);
      return ibv_create_cq_ex(device(), &attr);
    };
  };
  walk(std::vector<Pointer>{
      {"none", EINVAL, [] { return ibv_create_cq(device(), 0, nullptr, nullptr, 0); }},
      {"negative", EINVAL, [] { return ibv_create_cq(device(), -1, nullptr, nullptr, 0); }},
      {"too many", EINVAL, [] { return ibv_create_cq(device(), INT32_MAX, nullptr, nullptr, 0); }},
      {"vector", EINVAL, [] { return ibv_create_cq(device(), 4, nullptr, nullptr, 1); }},
      {"vector below 0", EINVAL, [] { return ibv_create_cq(device(), 4, nullptr, nullptr, -1); }},
      {"ex, too many", EINVAL, ex_with([](auto& a) { a.cqe = UINT32_MAX; })},
      {"ex, vector", EINVAL, ex_with([](auto& a) { a.comp_vector = UINT32_MAX; })},
      {"ex, fields", EOPNOTSUPP, ex_with([](auto& a) { a.wc_flags = IBV_WC_EX_WITH_CVLAN; })},
      {"ex, bits", EOPNOTSUPP, ex_with([](auto& a) { a.comp_mask = 1u << 31; })},
      {"ex, no parent domain", EINVAL, ex_with([](auto& a) { a.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD; })},
      {"ex, flags", EOPNOTSUPP, ex_with([](auto& a) {
         a.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
         a.flags = 1u << 31;
       })}});
  ibv_modify_cq_attr moderation{};
  ibv_wc wc;
  walk(std::vector<Number>{{"ibv_resize_cq, 0", EINVAL, [&] { return ibv_resize_cq(cq_.get(), 0); }},
                           {"ibv_resize_cq, negative", EINVAL, [&] { return ibv_resize_cq(cq_.get(), -5); }},
                           {"ibv_resize_cq, too many", EINVAL, [&] { return ibv_resize_cq(cq_.get(), INT32_MAX); }},
                           {"ibv_modify_cq", EINVAL, [&] { return ibv_modify_cq(cq_.get(), &moderation); }}});
  EXPECT_EQ(ibv_poll_cq(cq_.get(), 0, &wc), 0);
  EXPECT_EQ(ibv_poll_cq(cq_.get(), -1, &wc), 0);
}

TEST_F(ArgumentsTest, OfSharedReceiveQueues) {
  ibv_srq_init_attr attr{};
  const auto with = [&](uint32_t max_wr, uint32_t max_sge) {
    return [&attr, max_wr, max_sge, this]() -> const void* {
      attr.attr = {max_wr, max_sge, 0};
      return ibv_create_srq(pd_.get(), &attr);
    };
  };
  ibv_srq_init_attr_ex extended{};
  extended.attr = {4, 1, 0};
  walk(std::vector<Pointer>{{"none", EINVAL, with(0, 1)},
                            {"too many", EINVAL, with(UINT32_MAX, 1)},
                            {"too many elements", EINVAL, with(4, UINT32_MAX)},
                            {"ex, no domain", EINVAL, [&] { return ibv_create_srq_ex(device(), &extended); }},
                            {"ex, null domain", EINVAL,
                             [&] {
                               extended.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
                               extended.srq_type = IBV_SRQT_BASIC;
                               return ibv_create_srq_ex(device(), &extended);
                             }},
                            {"ex, XRC without a domain", EINVAL, [&] {
                               extended.pd = pd_.get();
                               extended.srq_type = IBV_SRQT_XRC;
                               return ibv_create_srq_ex(device(), &extended);
                             }}});
}

TEST_F(ArgumentsTest, OfRegionsAndWindows) {
  uint8_t bytes[64];
  const auto with = [&](void* addr, size_t length, int access) {
    return [this, addr, length, access]() -> const void* { return ibv_reg_mr(pd_.get(), addr, length, access); };
  };
  walk(std::vector<Pointer>{
      {"nothing", EFAULT, with(nullptr, 64, kAllAccess)},
      {"all", EFAULT, with(nullptr, SIZE_MAX, kAllAccess)},
      {"wraps", EINVAL, with(bytes, SIZE_MAX, kAllAccess)},
      {"rights", EINVAL, with(bytes, 64, IBV_ACCESS_REMOTE_WRITE)},
      {"unknown rights", EINVAL, with(bytes, 64, 1 << 12)},
      {"flush", EINVAL, with(bytes, 64, (1 << 8) | (1 << 9) | 1)},
      {"iova wraps", EINVAL, [&] { return ibv_reg_mr_iova(pd_.get(), bytes, 64, UINT64_MAX - 62, kAllAccess); }},
      {"dma-buf", EOPNOTSUPP, [&] { return ibv_reg_dmabuf_mr(pd_.get(), 0, 64, 0, -1, 0); }},
      {"window type 0", EINVAL, [&] { return ibv_alloc_mw(pd_.get(), static_cast<ibv_mw_type>(0)); }}});
  make_pair();
  const Owned<ibv_mw> mw1(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  const Owned<ibv_mw> mw2(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  const Owned<ibv_pd> other(ibv_alloc_pd(device()));
  const Owned<ibv_mr> theirs(ibv_reg_mr(other.get(), bytes, 64, kAllAccess));
  const auto bind = [&](ibv_mw* mw, const ibv_mw_bind_info& info) {
    return [this, mw, info] {
      ibv_mw_bind request{};
      request.bind_info = info;
      const int error = ibv_bind_mw(left_.get(), mw, &request);
      if (error != 0) errno = error;  // inline functions of the header refuse some, and do not set errno
      return error;
    };
  };
  walk(std::vector<Number>{
      {"type 2 by ibv_bind_mw", EINVAL, bind(mw2.get(), {b_.mr(), b_.addr(), 8, IBV_ACCESS_REMOTE_READ})},
      {"another domain", EPERM, bind(mw1.get(), {theirs.get(), 0, 8, IBV_ACCESS_REMOTE_READ})}});
}

TEST_F(ArgumentsTest, OfPosts) {
  QpOptions options;
  options.max_inline = 16;
  make_pair(options);
  const Owned<ibv_qp> ud = make_qp(pd_.get(), cq_.get(), cq_.get(), {.type = IBV_QPT_UD});
  connect(ud.get(), 0);
  ibv_sge sge = a_.sge(0, 64);
  const auto send = [&](ibv_qp* qp, ibv_wr_opcode opcode, auto change) {
    return [&sge, qp, opcode, change] {
      ibv_send_wr wr{};
      wr.opcode = opcode;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      change(wr);
      ibv_send_wr* bad = nullptr;
      const int error = ibv_post_send(qp, &wr, &bad);
      EXPECT_EQ(bad, &wr);
      return error;
    };
  };
  const auto receive = [&](int num_sge, ibv_sge* list) {
    return [this, num_sge, list] {
      ibv_recv_wr wr{1, nullptr, list, num_sge};
      ibv_recv_wr* bad = nullptr;
      const int error = ibv_post_recv(left_.get(), &wr, &bad);
      EXPECT_EQ(bad, &wr);
      return error;
    };
  };
  constexpr auto kPlain = [](ibv_send_wr&) {};
  walk(std::vector<Number>{
      {"elements below 0", EINVAL, send(left_.get(), IBV_WR_SEND, [](auto& wr) { wr.num_sge = -1; })},
      {"elements that are not there", EINVAL, send(left_.get(), IBV_WR_SEND, [](auto& wr) { wr.sg_list = nullptr; })},
      {"too many elements", EINVAL, send(left_.get(), IBV_WR_SEND, [](auto& wr) { wr.num_sge = 5; })},
      {"inline too long", EINVAL, send(left_.get(), IBV_WR_SEND, [](auto& wr) { wr.send_flags = IBV_SEND_INLINE; })},
      {"an atomic of 64 bytes", EINVAL, send(left_.get(), IBV_WR_ATOMIC_FETCH_AND_ADD, kPlain)},
      {"TSO", EINVAL, send(left_.get(), IBV_WR_TSO, kPlain)},
      {"unknown", EINVAL, send(left_.get(), static_cast<ibv_wr_opcode>(15), kPlain)},
      {"a window that is none", EINVAL, send(left_.get(), IBV_WR_BIND_MW, kPlain)},
      {"a datagram to nowhere", EINVAL, send(ud.get(), IBV_WR_SEND, kPlain)},
      {"a datagram that writes", EINVAL, send(ud.get(), IBV_WR_RDMA_WRITE, kPlain)},
      {"receive, below 0", EINVAL, receive(-1, &sge)},
      {"receive, not there", EINVAL, receive(1, nullptr)},
      {"receive, too many", EINVAL, receive(33, &sge)}});
}

TEST_F(ArgumentsTest, OfTransitions) {
  const auto fresh = [&] { return make_qp(pd_.get(), cq_.get(), cq_.get(), {}); };  // in INIT
  const auto modify = [](const Owned<ibv_qp>& qp, ibv_qp_state state, int mask) {
    return [&qp, state, mask] {
      ibv_qp_attr attr{};
      attr.qp_state = state;
      attr.port_num = 1;
      return ibv_modify_qp(qp.get(), &attr, mask);
    };
  };
  const Owned<ibv_qp> qp = fresh();
  walk(std::vector<Number>{{"INIT to RTS", EINVAL, modify(qp, IBV_QPS_RTS, IBV_QP_STATE)},
                           {"INIT to SQE", EINVAL, modify(qp, IBV_QPS_SQE, IBV_QP_STATE)},
                           {"INIT to SQD", EINVAL, modify(qp, IBV_QPS_SQD, IBV_QP_STATE)},
                           {"INIT to RTR without anything", EINVAL, modify(qp, IBV_QPS_RTR, IBV_QP_STATE)},
                           {"to no state", EINVAL, modify(qp, IBV_QPS_UNKNOWN, IBV_QP_STATE)},
                           {"an unknown bit", EINVAL, modify(qp, IBV_QPS_INIT, IBV_QP_STATE | (1 << 29))},
                           {"to ERR with an attribute", EINVAL, modify(qp, IBV_QPS_ERR, IBV_QP_STATE | IBV_QP_PORT)},
                           {"the alternate path", EOPNOTSUPP, modify(qp, IBV_QPS_INIT, IBV_QP_ALT_PATH)},
                           {"sizes", EOPNOTSUPP, modify(qp, IBV_QPS_INIT, IBV_QP_CAP)},
                           {"a rate in INIT", EINVAL, modify(qp, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_RATE_LIMIT)}});
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_INIT);  // none of them changed anything
}

TEST_F(ArgumentsTest, OfAddressHandles) {
  const auto with = [&](auto change) {
    return [this, change]() -> const void* {
      ibv_ah_attr attr = own_address(1);
      change(attr);
      return ibv_create_ah(pd_.get(), &attr);
    };
  };
  walk(std::vector<Pointer>{{"port 0", EINVAL, with([](auto& a) { a.port_num = 0; })},
                            {"port 2", EINVAL, with([](auto& a) { a.port_num = 2; })},
                            {"GID that is not there", EINVAL, with([](auto& a) { a.grh.sgid_index = 200; })},
                            {"nowhere", EINVAL, with([](auto& a) { a.grh.dgid = {}; })}});
}

/// Destroying an object that another one uses fails with EBUSY, and changes nothing.
TEST_F(ArgumentsTest, OfTheOrderOfDestruction) {
  ibv_td_init_attr td_attr{};
  ibv_td* td = ibv_alloc_td(device(), &td_attr);
  ibv_parent_domain_init_attr parent_attr{};
  parent_attr.pd = pd_.get();
  parent_attr.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(device(), &parent_attr);
  ibv_comp_channel* channel = ibv_create_comp_channel(device());
  ibv_cq* cq = ibv_create_cq(device(), 4, nullptr, channel, 0);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {4, 1, 0};
  ibv_srq* srq = ibv_create_srq(parent, &srq_attr);
  ibv_alloc_dm_attr dm_attr{64, 0, 0};
  ibv_dm* dm = ibv_alloc_dm(device(), &dm_attr);
  ibv_mr* mr = ibv_reg_dm_mr(parent, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
  ibv_qp_init_attr qp_attr = qp_init();
  qp_attr.send_cq = qp_attr.recv_cq = cq;
  qp_attr.srq = srq;
  ibv_qp* qp = ibv_create_qp(parent, &qp_attr);
  ASSERT_NE(qp, nullptr);
  const std::vector<Number> busy{{"td", EBUSY, [&] { return ibv_dealloc_td(td); }},
                                 {"pd", EBUSY, [&] { return ibv_dealloc_pd(pd_.get()); }},
                                 {"parent domain", EBUSY, [&] { return ibv_dealloc_pd(parent); }},
                                 {"channel", EBUSY, [&] { return ibv_destroy_comp_channel(channel); }},
                                 {"cq", EBUSY, [&] { return ibv_destroy_cq(cq); }},
                                 {"srq", EBUSY, [&] { return ibv_destroy_srq(srq); }},
                                 {"dm", EBUSY, [&] { return ibv_free_dm(dm); }}};
  walk(busy);
  walk(busy);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

/// Objects of two openings of the device do not mix: a kernel finds those of the other one by no number.
TEST_F(ArgumentsTest, OfObjectsOfAnotherOpening) {
  ibv_context* const context = ibv_open_device(device()->device);
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  ibv_srq_init_attr srq_attr{nullptr, {8, 1, 0}};
  ibv_srq* const srq = ibv_create_srq(pd, &srq_attr);
  ibv_alloc_dm_attr dm_attr{64, 0, 0};
  ibv_dm* const dm = ibv_alloc_dm(context, &dm_attr);
  const auto number = [](const void* made) { return made == nullptr ? errno : 0; };
  const auto make_qp_with = [&](ibv_cq* send_cq, ibv_cq* recv_cq, ibv_srq* with) {
    ibv_qp_init_attr attr = qp_init();
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.srq = with;
    return number(ibv_create_qp(pd_.get(), &attr));
  };
  walk(std::vector<Number>{
      {"send cq", ENOENT, [&] { return make_qp_with(cq, cq_.get(), nullptr); }},
      {"recv cq", ENOENT, [&] { return make_qp_with(cq_.get(), cq, nullptr); }},
      {"srq", ENOENT, [&] { return make_qp_with(cq_.get(), cq_.get(), srq); }},
      {"channel", EBADF, [&] { return number(ibv_create_cq(device(), 4, nullptr, channel, 0)); }},
      {"dm", ENOENT, [&] { return number(ibv_reg_dm_mr(pd_.get(), dm, 0, 64, IBV_ACCESS_ZERO_BASED)); }}});
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

/// A device may be closed while objects exist in it.
TEST_F(ArgumentsTest, OfClosingWithEverythingAlive) {
  ibv_context* context = ibv_open_device(device()->device);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  EXPECT_EQ(ibv_close_device(context), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

}  // namespace
