// Verbs may be called from any thread.
#include <atomic>
#include <thread>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

constexpr uint32_t kPieces = 8;
constexpr uint32_t kPieceBytes = 2000;

/// A word of write `number`, different from all others of all threads.
uint64_t word_of(uint64_t writer, uint64_t number, uint32_t i) {
  return (writer << 56) ^ (number * 0x9E3779B97F4A7C15u) ^ (uint64_t{i} << 40);
}

/// Makes `count` writes over a pair of its own, a few at a time, and checks each completion and every byte.
void write_many(ibv_pd* pd, uint64_t writer, int count) {
  const Owned<ibv_cq> cq(ibv_create_cq(device(), 64, nullptr, nullptr, 0));
  Buffer from(pd, size_t{kPieces} * kPieceBytes);
  Buffer to(pd, size_t{kPieces} * kPieceBytes);
  const Owned<ibv_qp> left = make_qp(pd, cq.get(), cq.get(), {});
  const Owned<ibv_qp> right = make_qp(pd, cq.get(), cq.get(), {});
  connect(left.get(), right->qp_num);
  connect(right.get(), left->qp_num);
  uint64_t posted = 0;
  uint64_t completed = 0;
  const auto total = static_cast<uint64_t>(count);
  while (completed < total) {
    while (posted < total && posted < completed + kPieces) {
      const size_t offset = posted % kPieces * kPieceBytes;
      auto* words = reinterpret_cast<uint64_t*>(from.data() + offset);
      for (uint32_t i = 0; i < kPieceBytes / 8; i++) words[i] = word_of(writer, posted, i);
      ibv_sge sge = from.sge(offset, kPieceBytes);
      ibv_send_wr wr{};
      wr.wr_id = posted++;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma = {to.addr() + offset, to.rkey()};
      ibv_send_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_send(left.get(), &wr, &bad), 0);
    }
    ibv_wc wc[8];
    const int n = ibv_poll_cq(cq.get(), 8, wc);
    for (int i = 0; i < n; i++) {
      ASSERT_EQ(wc[i].status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc[i].status);
      ASSERT_EQ(wc[i].wr_id, completed);
      const auto* words = reinterpret_cast<const uint64_t*>(to.data() + completed % kPieces * kPieceBytes);
      for (uint32_t w = 0; w < kPieceBytes / 8; w++) ASSERT_EQ(words[w], word_of(writer, completed, w)) << w;
      completed++;
    }
  }
}

TEST(ThreadTest, ManyThreadsAtOnce) {
  const Owned<ibv_pd> pd(ibv_alloc_pd(device()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&pd, i] { write_many(pd.get(), static_cast<uint64_t>(i) + 1, 20000); });
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadTest, ObjectsComeAndGoWhileOthersWork) {
  const Owned<ibv_pd> pd(ibv_alloc_pd(device()));
  std::atomic<bool> done{false};
  std::thread worker([&] {
    write_many(pd.get(), 9, 50000);
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
