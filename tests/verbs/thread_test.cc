// Verbs may be called from any thread.
#include <atomic>
#include <thread>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

/// Writes `count` times through a pair of its own, a few at a time, and checks each completion.
void write_many(ibv_pd* pd, int count) {
  const Owned<ibv_cq> cq(ibv_create_cq(device(), 64, nullptr, nullptr, 0));
  Buffer from(pd, 4096);
  const Buffer to(pd, 4096);
  const Owned<ibv_qp> left = make_qp(pd, cq.get(), cq.get(), {});
  const Owned<ibv_qp> right = make_qp(pd, cq.get(), cq.get(), {});
  connect(left.get(), right->qp_num);
  connect(right.get(), left->qp_num);
  uint64_t posted = 0;
  uint64_t completed = 0;
  const auto total = static_cast<uint64_t>(count);
  while (completed < total) {
    while (posted < total && posted < completed + 8) {
      ibv_sge sge = from.sge(0, 2000);
      ibv_send_wr wr{};
      wr.wr_id = posted++;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma = {to.addr(), to.rkey()};
      ibv_send_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_send(left.get(), &wr, &bad), 0);
    }
    ibv_wc wc[8];
    const int n = ibv_poll_cq(cq.get(), 8, wc);
    for (int i = 0; i < n; i++) {
      ASSERT_EQ(wc[i].status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc[i].status);
      ASSERT_EQ(wc[i].wr_id, completed);
      completed++;
    }
  }
}

TEST(ThreadTest, ManyThreadsAtOnce) {
  const Owned<ibv_pd> pd(ibv_alloc_pd(device()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) threads.emplace_back([&] { write_many(pd.get(), 20000); });
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadTest, ObjectsComeAndGoWhileOthersWork) {
  const Owned<ibv_pd> pd(ibv_alloc_pd(device()));
  std::atomic<bool> done{false};
  std::thread worker([&] {
    write_many(pd.get(), 50000);
    done = true;
  });
  while (!done) {
    const Buffer buffer(pd.get(), 128);
    const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(device()));
    const Owned<ibv_cq> cq(ibv_create_cq(device(), 4, nullptr, channel.get(), 0));
    const Owned<ibv_qp> qp = make_qp(pd.get(), cq.get(), cq.get(), {});
    ibv_ah_attr attr = own_address(1);
    const Owned<ibv_ah> ah(ibv_create_ah(pd.get(), &attr));
    EXPECT_NE(ah, nullptr);
  }
  worker.join();
}

}  // namespace
