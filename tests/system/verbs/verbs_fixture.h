// A device, and queue pairs of this process that are connected to each other.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace verbs_test {

/// Opened once for all tests. Fails the test when it is not the shim's device.
ibv_context* device();

/// Destroys an object of any kind.
struct Release {
  void operator()(ibv_pd* p) const { EXPECT_EQ(ibv_dealloc_pd(p), 0); }
  void operator()(ibv_mr* p) const { EXPECT_EQ(ibv_dereg_mr(p), 0); }
  void operator()(ibv_mw* p) const { EXPECT_EQ(ibv_dealloc_mw(p), 0); }
  void operator()(ibv_cq* p) const { EXPECT_EQ(ibv_destroy_cq(p), 0); }
  void operator()(ibv_qp* p) const { EXPECT_EQ(ibv_destroy_qp(p), 0); }
  void operator()(ibv_srq* p) const { EXPECT_EQ(ibv_destroy_srq(p), 0); }
  void operator()(ibv_ah* p) const { EXPECT_EQ(ibv_destroy_ah(p), 0); }
  void operator()(ibv_comp_channel* p) const { EXPECT_EQ(ibv_destroy_comp_channel(p), 0); }
};
template <typename T>
using Owned = std::unique_ptr<T, Release>;

inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

/// A registered buffer.
class Buffer {
 public:
  Buffer(ibv_pd* pd, size_t bytes, int access = kAllAccess);
  uint8_t* data() { return bytes_.data(); }
  uint64_t addr() const { return reinterpret_cast<uint64_t>(bytes_.data()); }
  uint32_t lkey() const { return mr_->lkey; }
  uint32_t rkey() const { return mr_->rkey; }
  ibv_mr* mr() { return mr_.get(); }
  ibv_sge sge(size_t offset, uint32_t length) const { return {addr() + offset, length, lkey()}; }
  void fill(uint8_t seed);

 private:
  std::vector<uint8_t> bytes_;
  Owned<ibv_mr> mr_;
};

struct QpOptions {
  ibv_qp_type type = IBV_QPT_RC;
  uint32_t max_wr = 16;
  uint32_t max_sge = 4;
  uint32_t max_inline = 64;
  bool sig_all = false;
  ibv_srq* srq = nullptr;
  uint64_t send_ops = 0;  // if not 0, the extended interface
};

Owned<ibv_qp> make_qp(ibv_pd* pd, ibv_cq* send_cq, ibv_cq* recv_cq, const QpOptions& options);
/// Moves to RTS, connected to `peer_qpn` of this same device.
void connect(ibv_qp* qp, uint32_t peer_qpn);
void to_error(ibv_qp* qp);
/// The device's own address, by GID.
ibv_ah_attr own_address(int gid_index);

/// Polls until there are `count` completions; fails the test when they do not come.
std::vector<ibv_wc> poll(ibv_cq* cq, size_t count);
/// Expects that nothing more comes for a while.
void expect_nothing(ibv_cq* cq);

/// One PD, one CQ, two connected RC queue pairs.
class PairTest : public testing::Test {
 protected:
  void make_pair(const QpOptions& options = {});
  int post_recv(ibv_qp* qp, uint64_t wr_id, const ibv_sge& sge);
  int post_send(ibv_qp* qp, ibv_send_wr wr, const ibv_sge& sge);
  /// The next async event of this type for `object`, unacknowledged; others are acknowledged and skipped.
  static ibv_async_event wait_for(ibv_event_type type, const void* object);

  Owned<ibv_pd> pd_{ibv_alloc_pd(device())};
  Owned<ibv_cq> cq_{ibv_create_cq(device(), 256, nullptr, nullptr, 0)};
  Owned<ibv_cq> recv_cq_{ibv_create_cq(device(), 256, nullptr, nullptr, 0)};
  Buffer a_{pd_.get(), 65536};
  Buffer b_{pd_.get(), 65536};
  Owned<ibv_qp> left_;
  Owned<ibv_qp> right_;
};

}  // namespace verbs_test
