// What the device says of memory on demand, transport by transport and operation by operation: a bit is set where the
// operation works, and only there.
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>

#include "mapped.h"
#include "xrc_fixture.h"

namespace {

using namespace verbs_test;
using uroce::test::kPage;
using uroce::test::Mapped;

// From release 64, as numbers, since the headers used here may be older.
constexpr uint32_t kSupportsFlush = 1 << 6;
constexpr uint32_t kSupportsAtomicWrite = 1 << 7;
constexpr int kFlushGlobal = 1 << 8;
constexpr uint64_t kWithFlush = 1 << 11;
constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kGrhBytes = 40;
constexpr uint32_t kBytes = 64;

struct Transport {
  ibv_qp_type type;
  const char* name;
};
struct Operation {
  uint32_t bit;
  uint64_t send_op;
  const char* name;
};

constexpr Transport kTransports[] = {
    {IBV_QPT_RC, "rc"}, {IBV_QPT_UC, "uc"}, {IBV_QPT_UD, "ud"}, {IBV_QPT_XRC_SEND, "xrc"}};
constexpr Operation kOperations[] = {{IBV_ODP_SUPPORT_SEND, IBV_QP_EX_WITH_SEND, "send"},
                                     {IBV_ODP_SUPPORT_RECV, IBV_QP_EX_WITH_SEND, "recv"},
                                     {IBV_ODP_SUPPORT_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, "write"},
                                     {IBV_ODP_SUPPORT_READ, IBV_QP_EX_WITH_RDMA_READ, "read"},
                                     {IBV_ODP_SUPPORT_ATOMIC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, "atomic"},
                                     {IBV_ODP_SUPPORT_SRQ_RECV, IBV_QP_EX_WITH_SEND, "srq_recv"},
                                     {kSupportsFlush, kWithFlush, "flush"},
                                     {kSupportsAtomicWrite, IBV_QP_EX_WITH_ATOMIC_WRITE, "atomic_write"}};

/// The member of ibv_qp_ex behind wr_atomic_write, as later headers have it.
void flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  void (*operation)(ibv_qp_ex*, uint32_t, uint64_t, size_t, uint8_t, uint8_t) = nullptr;
  const auto* members = reinterpret_cast<const uint8_t*>(qp);
  std::memcpy(&operation, members + offsetof(ibv_qp_ex, wr_atomic_write) + sizeof(void*), sizeof operation);
  ASSERT_NE(operation, nullptr);
  operation(qp, rkey, addr, kBytes, /*global visibility*/ 1, /*of a range*/ 0);
}

/// A page that was not mapped when it was registered.
struct OnDemand {
  explicit OnDemand(ibv_pd* pd)
      : mr(ibv_reg_mr(pd, memory.data(), kPage, kAllAccess | kFlushGlobal | IBV_ACCESS_ON_DEMAND)) {
    EXPECT_NE(mr, nullptr);
    memory.protect(PROT_READ | PROT_WRITE);
  }
  ibv_sge sge(uint32_t bytes) const { return {memory.addr(), bytes, mr->lkey}; }

  Mapped memory{kPage, Mapped::Of::kNothing, PROT_NONE};
  Owned<ibv_mr> mr;
};

class OnDemandTransportsTest : public XrcTest, public testing::WithParamInterface<std::tuple<Transport, Operation>> {
 protected:
  const Transport& transport() const { return std::get<0>(GetParam()); }
  const Operation& operation() const { return std::get<1>(GetParam()); }
  bool xrc() const { return transport().type == IBV_QPT_XRC_SEND; }
  bool shared() const { return operation().bit == IBV_ODP_SUPPORT_SRQ_RECV || xrc(); }

  bool said() {
    ibv_device_attr_ex attr{};
    EXPECT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
    const auto& caps = attr.odp_caps.per_transport_caps;
    switch (transport().type) {
      case IBV_QPT_RC:
        return (caps.rc_odp_caps & operation().bit) != 0;
      case IBV_QPT_UC:
        return (caps.uc_odp_caps & operation().bit) != 0;
      case IBV_QPT_UD:
        return (caps.ud_odp_caps & operation().bit) != 0;
      default:
        return (attr.xrc_odp_caps & operation().bit) != 0;
    }
  }
  /// Whether such a queue pair can be made at all.
  bool exists() {
    ibv_qp_init_attr_ex attr{};
    attr.pd = pd_.get();
    attr.send_cq = cq_.get();
    attr.recv_cq = recv_cq_.get();
    attr.srq = xrc() ? nullptr : queue_.get();
    attr.cap = {1, 1, 1, 1, 0};
    attr.qp_type = transport().type;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = operation().send_op;
    return Owned<ibv_qp>(ibv_create_qp_ex(device(), &attr)) != nullptr;
  }
  void make_ends() {
    if (xrc()) return make_connection(operation().send_op);
    QpOptions options;
    options.type = transport().type;
    options.srq = queue_.get();
    options.send_ops = operation().send_op;
    if (options.type != IBV_QPT_UD) {
      make_pair(options);
    } else {
      for (Owned<ibv_qp>* end : {&left_, &right_}) {
        *end = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
        connect(end->get(), 0);
      }
    }
    if (options.type != IBV_QPT_RC) return;
    ibv_qp_attr attr{};
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | unsigned{kFlushGlobal};
    ASSERT_EQ(ibv_modify_qp(right_.get(), &attr, IBV_QP_ACCESS_FLAGS), 0);
  }
  bool post_receive(const ibv_sge& place) {
    // An XRC target uses shared receive queues: RECV would mean receives of its own.
    if (!shared() || operation().bit == IBV_ODP_SUPPORT_RECV) return post_recv(right_.get(), 1, place) == 0;
    post_to(queue_, 1, place);
    return true;
  }
  void post(const ibv_sge& local, uint64_t remote, uint32_t rkey) {
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(left_.get());
    ASSERT_NE(qp, nullptr);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    bool elements = true;
    switch (operation().bit) {
      case IBV_ODP_SUPPORT_WRITE:
        ibv_wr_rdma_write(qp, rkey, remote);
        break;
      case IBV_ODP_SUPPORT_READ:
        ibv_wr_rdma_read(qp, rkey, remote);
        break;
      case IBV_ODP_SUPPORT_ATOMIC:
        ibv_wr_atomic_fetch_add(qp, rkey, remote, 5);
        break;
      case kSupportsFlush:
        flush(qp, rkey, remote);
        elements = false;
        break;
      case kSupportsAtomicWrite:
        ibv_wr_atomic_write(qp, rkey, remote, a_.data());
        elements = false;
        break;
      default:
        ibv_wr_send(qp);
    }
    if (xrc()) ibv_wr_set_xrc_srqn(qp, number_of(queue_));
    if (transport().type == IBV_QPT_UD) {
      ibv_ah_attr address = own_address(1);
      ah_.reset(ibv_create_ah(pd_.get(), &address));
      ibv_wr_set_ud_addr(qp, ah_.get(), right_->qp_num, kQkey);
    }
    if (elements) ibv_wr_set_sge(qp, local.lkey, local.addr, local.length);
    EXPECT_EQ(ibv_wr_complete(qp), 0);
  }
  /// Executes the operation once, with memory on demand at each end that it touches; the bytes show whether it worked.
  bool works() {
    if (xrc()) queue_ = make_queue();
    if (shared() && !xrc()) {
      ibv_srq_init_attr attr{nullptr, {4, 1, 0}};
      queue_.reset(ibv_create_srq(pd_.get(), &attr));
    }
    if (!exists()) return false;
    make_ends();
    OnDemand near(pd_.get());
    OnDemand far(pd_.get());
    a_.fill(9);
    const uint32_t bit = operation().bit;
    const bool receives = bit == IBV_ODP_SUPPORT_RECV || bit == IBV_ODP_SUPPORT_SRQ_RECV;
    const bool message = receives || bit == IBV_ODP_SUPPORT_SEND;
    const uint32_t bytes = bit == IBV_ODP_SUPPORT_ATOMIC || bit == kSupportsAtomicWrite ? 8 : kBytes;
    if (bit != kSupportsFlush) {
      std::memcpy(bit == IBV_ODP_SUPPORT_READ || bit == IBV_ODP_SUPPORT_ATOMIC ? far.memory.data() : near.memory.data(),
                  a_.data(), bytes);
    }
    if (message && !post_receive(receives ? far.sge(256) : b_.sge(0, 256))) return false;
    post(receives ? a_.sge(0, bytes) : near.sge(bytes), far.memory.addr(), far.mr->rkey);
    if (poll(cq_.get(), 1)[0].status != IBV_WC_SUCCESS) return false;
    if (message && poll(recv_cq_.get(), 1)[0].status != IBV_WC_SUCCESS) return false;
    if (bit == kSupportsFlush) return true;
    const uint8_t* end = far.memory.data();
    if (bit == IBV_ODP_SUPPORT_SEND) end = b_.data();
    if (bit == IBV_ODP_SUPPORT_READ || bit == IBV_ODP_SUPPORT_ATOMIC) end = near.memory.data();
    if (message && transport().type == IBV_QPT_UD) end += kGrhBytes;
    return arrive(end, bytes);
  }
  /// A WRITE of an unreliable connection completes before it arrives.
  bool arrive(const uint8_t* at, size_t bytes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (std::chrono::steady_clock::now() < end) {
      if (std::memcmp(at, a_.data(), bytes) == 0) return true;
      expect_nothing(cq_.get());
    }
    return false;
  }
  void TearDown() override {
    XrcTest::TearDown();
    queue_.reset();
  }

  Owned<ibv_srq> queue_;
  Owned<ibv_ah> ah_;
};

TEST_P(OnDemandTransportsTest, ABitIsSetWhereTheOperationWorks) { EXPECT_EQ(said(), works()); }

INSTANTIATE_TEST_SUITE_P(Every, OnDemandTransportsTest,
                         testing::Combine(testing::ValuesIn(kTransports), testing::ValuesIn(kOperations)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name;
                         });

}  // namespace
