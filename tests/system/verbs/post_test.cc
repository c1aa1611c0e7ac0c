// ibv_post_send, ibv_post_recv, ibv_post_srq_recv.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class PostTest : public PairTest {};

TEST_F(PostTest, SendAndReceive) {
  make_pair();
  a_.fill(1);
  ASSERT_EQ(post_recv(right_.get(), 11, b_.sge(0, 5000)), 0);
  ibv_send_wr wr{};
  wr.wr_id = 22;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htonl(0x01020304);
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 4500)), 0);
  const ibv_wc sent = poll(cq_.get(), 1)[0];
  EXPECT_EQ(sent.wr_id, 22u);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.qp_num, left_->qp_num);
  const ibv_wc received = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(received.wr_id, 11u);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 4500u);
  EXPECT_EQ(received.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(received.imm_data, htonl(0x01020304));
  EXPECT_EQ(received.qp_num, right_->qp_num);
  EXPECT_EQ(std::memcmp(a_.data(), b_.data(), 4500), 0);
}

TEST_F(PostTest, WriteReadAndAtomics) {
  make_pair();
  a_.fill(2);
  ibv_send_wr wr{};
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {b_.addr() + 64, b_.rkey()};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 30000)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(std::memcmp(a_.data(), b_.data() + 64, 30000), 0);

  wr.opcode = IBV_WR_RDMA_READ;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(32000, 30000)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(std::memcmp(a_.data() + 32000, b_.data() + 64, 30000), 0);

  const uint64_t five = 5;
  std::memcpy(b_.data(), &five, 8);
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic = {b_.addr(), 37, 0, b_.rkey()};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].opcode, IBV_WC_FETCH_ADD);
  uint64_t value;
  std::memcpy(&value, a_.data(), 8);
  EXPECT_EQ(value, 5u);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic = {b_.addr(), 42, 1000, b_.rkey()};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].opcode, IBV_WC_COMP_SWAP);
  std::memcpy(&value, a_.data(), 8);
  EXPECT_EQ(value, 42u);
  std::memcpy(&value, b_.data(), 8);
  EXPECT_EQ(value, 1000u);
}

TEST_F(PostTest, WriteWithImmediateTakesAReceive) {
  make_pair();
  ASSERT_EQ(post_recv(right_.get(), 9, b_.sge(0, 16)), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htonl(7);
  wr.wr.rdma = {b_.addr() + 1024, b_.rkey()};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 2000)), 0);
  const ibv_wc received = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.byte_len, 2000u);
  EXPECT_EQ(received.wr_id, 9u);
  expect_nothing(cq_.get());  // not signalled
}

/// As with cards: the owner of the key is told by the receive that the message would have consumed.
TEST_F(PostTest, WriteWithImmediateOfAWrongKeyFailsItsReceive) {
  make_pair();
  ASSERT_EQ(post_recv(right_.get(), 9, b_.sge(0, 16)), 0);
  ASSERT_EQ(post_recv(right_.get(), 10, b_.sge(0, 16)), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.wr.rdma = {b_.addr() + 1024, b_.rkey() ^ 0x100};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 64)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_ACCESS_ERR);
  const std::vector<ibv_wc> received = poll(recv_cq_.get(), 2);
  EXPECT_EQ(received[0].status, IBV_WC_LOC_ACCESS_ERR);
  EXPECT_EQ(received[0].wr_id, 9u);
  EXPECT_EQ(received[1].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(PostTest, ListsStopAtTheFirstBadOne) {
  make_pair();
  ibv_sge sges[20];
  ibv_send_wr wrs[3]{};
  for (int i = 0; i < 20; i++) sges[i] = a_.sge(static_cast<size_t>(i) * 8, 8);
  for (int i = 0; i < 3; i++) {
    wrs[i].wr_id = static_cast<uint64_t>(i);
    wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
    wrs[i].opcode = IBV_WR_RDMA_WRITE;
    wrs[i].send_flags = IBV_SEND_SIGNALED;
    wrs[i].wr.rdma = {b_.addr(), b_.rkey()};
    wrs[i].sg_list = sges;
    wrs[i].num_sge = i == 1 ? 20 : 2;  // more than max_send_sge
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(left_.get(), wrs, &bad), EINVAL);
  EXPECT_EQ(bad, &wrs[1]);
  EXPECT_EQ(poll(cq_.get(), 1)[0].wr_id, 0u);
  expect_nothing(cq_.get());
}

TEST_F(PostTest, RefusalsHaveTheirErrno) {
  make_pair();
  ibv_send_wr wr{};
  wr.opcode = static_cast<ibv_wr_opcode>(IBV_WR_TSO);
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), EINVAL);
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 60000)), EINVAL);
  wr.send_flags = 0;
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic = {b_.addr(), 1, 0, b_.rkey()};
  for (const uint32_t bytes : {0u, 7u, 9u, 64u}) EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, bytes)), EINVAL);
  for (uint64_t i = 0; i < 16; i++) ASSERT_EQ(post_recv(right_.get(), i, b_.sge(0, 8)), 0);
  EXPECT_EQ(post_recv(right_.get(), 16, b_.sge(0, 8)), ENOMEM);
  const Owned<ibv_qp> fresh = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  EXPECT_EQ(post_send(fresh.get(), {}, a_.sge(0, 8)), EINVAL);  // INIT
}

TEST_F(PostTest, RequestsThatAreNoneAreRefused) {
  make_pair();
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  wr.num_sge = -1;
  EXPECT_EQ(ibv_post_send(left_.get(), &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  wr.num_sge = 0;
  wr.opcode = IBV_WR_BIND_MW;  // of no window
  EXPECT_EQ(ibv_post_send(left_.get(), &wr, &bad), EINVAL);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  receive.num_sge = -1;
  EXPECT_EQ(ibv_post_recv(left_.get(), &receive, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &receive);
  ibv_recv_wr good{1, &receive, nullptr, 0};
  bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(left_.get(), &good, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &receive);  // the first one was posted
  to_error(left_.get());
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].wr_id, 1u);
}

/// Offload flags that the device does not support change nothing; those that it supports are distinguished.
TEST_F(PostTest, FlagsAreWhatTheySay) {
  make_pair();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {b_.addr(), b_.rkey()};
  wr.send_flags = IBV_SEND_IP_CSUM | IBV_SEND_SOLICITED | IBV_SEND_FENCE;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  expect_nothing(cq_.get());  // none of them asks for a completion
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].byte_len, 8u);
}

TEST_F(PostTest, EverySendOfAQueuePairCanBeSignalled) {
  QpOptions options;
  options.sig_all = true;
  make_pair(options);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {b_.addr(), b_.rkey()};
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
}

TEST_F(PostTest, SharedReceiveQueueOfTheExtendedInterface) {
  ibv_srq_init_attr_ex attr{};
  attr.attr = {4, 2, 0};
  attr.srq_context = &attr;
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  attr.srq_type = IBV_SRQT_BASIC;
  attr.pd = pd_.get();
  const Owned<ibv_srq> srq(ibv_create_srq_ex(device(), &attr));
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(srq->srq_context, &attr);
  EXPECT_EQ(srq->pd, pd_.get());
  EXPECT_EQ(srq->context, device());
  attr.srq_type = IBV_SRQT_BASIC;
  attr.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
  EXPECT_EQ(ibv_create_srq_ex(device(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;  // in no domain
  EXPECT_EQ(ibv_create_srq_ex(device(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(PostTest, FullSendQueueIsNoMemory) {
  left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(left_.get(), 0xabcdef);  // no answers: nothing completes for a while
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  for (int i = 0; i < 16; i++) ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), ENOMEM);
}

TEST_F(PostTest, InlineDataIsTakenAtOnce) {
  make_pair();
  ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 64)), 0);
  char words[32] = "taken when posted";
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  ASSERT_EQ(post_send(left_.get(), wr, {reinterpret_cast<uint64_t>(words), sizeof words, 0}), 0);
  std::memset(words, 0, sizeof words);
  poll(recv_cq_.get(), 1);
  EXPECT_STREQ(reinterpret_cast<char*>(b_.data()), "taken when posted");
}

TEST_F(PostTest, ScatterAndGather) {
  make_pair();
  a_.fill(9);
  ibv_sge to[3] = {b_.sge(100, 10), b_.sge(300, 20), b_.sge(500, 100)};
  ibv_recv_wr recv{1, nullptr, to, 3};
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_recv(right_.get(), &recv, &bad_recv), 0);
  ibv_sge from[2] = {a_.sge(0, 25), a_.sge(1000, 25)};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = from;
  wr.num_sge = 2;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(left_.get(), &wr, &bad), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 50u);
  EXPECT_EQ(std::memcmp(b_.data() + 100, a_.data(), 10), 0);
  EXPECT_EQ(std::memcmp(b_.data() + 300, a_.data() + 10, 15), 0);
  EXPECT_EQ(std::memcmp(b_.data() + 315, a_.data() + 1000, 5), 0);
  EXPECT_EQ(std::memcmp(b_.data() + 500, a_.data() + 1005, 20), 0);
}

TEST_F(PostTest, ErrorsFlushInOrder) {
  make_pair();
  for (uint64_t i = 0; i < 4; i++) ASSERT_EQ(post_recv(left_.get(), i, b_.sge(0, 8)), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {b_.addr(), b_.rkey() + 1};
  wr.wr_id = 50;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);  // unsignalled, but errors always complete
  wr.wr_id = 51;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  const std::vector<ibv_wc> sends = poll(cq_.get(), 2);
  EXPECT_EQ(sends[0].wr_id, 50u);
  EXPECT_EQ(sends[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(sends[1].wr_id, 51u);
  EXPECT_EQ(sends[1].status, IBV_WC_WR_FLUSH_ERR);
  const std::vector<ibv_wc> receives = poll(recv_cq_.get(), 4);
  for (uint64_t i = 0; i < 4; i++) {
    EXPECT_EQ(receives[i].wr_id, i);
    EXPECT_EQ(receives[i].status, IBV_WC_WR_FLUSH_ERR);
  }
}

TEST_F(PostTest, SharedReceiveQueue) {
  ibv_srq_init_attr attr{};
  attr.attr = {8, 2, 0};
  Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &attr));
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr now;
  ASSERT_EQ(ibv_query_srq(srq.get(), &now), 0);
  EXPECT_GE(now.max_wr, 8u);
  EXPECT_GE(now.max_sge, 2u);
  QpOptions options;
  options.srq = srq.get();
  make_pair(options);
  EXPECT_EQ(post_recv(right_.get(), 1, b_.sge(0, 8)), EINVAL);  // it has no receive queue of its own
  EXPECT_EQ(ibv_destroy_srq(srq.get()), EBUSY);
  for (uint64_t i = 0; i < 2; i++) {
    ibv_sge sge = b_.sge(i * 64, 64);
    ibv_recv_wr recv{i, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), &recv, &bad), 0);
  }
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].qp_num, right_->qp_num);
  ASSERT_EQ(post_send(right_.get(), wr, a_.sge(0, 8)), 0);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].qp_num, left_->qp_num);
  left_.reset();
  right_.reset();
}

/// Programs round receives up to an MTU: on a queue pair's own queue and on a shared one.
TEST_F(PostTest, AReceiveMayBeLongerThanItsRegion) {
  ibv_srq_init_attr init{nullptr, {8, 1, 0}};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &init));
  for (ibv_srq* shared : {static_cast<ibv_srq*>(nullptr), srq.get()}) {
    QpOptions options;
    options.srq = shared;
    make_pair(options);
    a_.fill(7);
    for (const uint32_t bytes : {64u, 65u}) {
      ibv_sge behind = b_.sge(65536 - 64, 4096);
      ibv_recv_wr receive{bytes, nullptr, &behind, 1};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(
          shared != nullptr ? ibv_post_srq_recv(shared, &receive, &bad) : ibv_post_recv(right_.get(), &receive, &bad),
          0);
      ibv_send_wr wr{};
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_SIGNALED;
      ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, bytes)), 0);
      EXPECT_EQ(poll(cq_.get(), 1)[0].status, bytes == 64 ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
      const ibv_wc received = poll(recv_cq_.get(), 1)[0];
      EXPECT_EQ(received.status, bytes == 64 ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
      if (bytes != 64) continue;
      EXPECT_EQ(received.byte_len, 64u);
      EXPECT_EQ(std::memcmp(a_.data(), b_.data() + 65536 - 64, 64), 0);
    }
    left_.reset();
    right_.reset();
  }
}

/// Every byte of them is used: what is sent is as long as its elements, and so is what a READ or an atomic brings.
TEST_F(PostTest, OtherElementsLieInTheirRegion) {
  constexpr uint64_t kEnd = 65536;
  for (const ibv_wr_opcode opcode :
       {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    for (const uint32_t beyond : {0u, 1u, 8u}) {
      make_pair({});
      const bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
      const uint32_t bytes = atomic ? 8 : 64;
      std::memset(b_.data(), 1, 65536);
      std::memset(a_.data(), 2, 65536);
      if (opcode == IBV_WR_SEND) {
        ASSERT_EQ(post_recv(right_.get(), 1, b_.sge(0, 4096)), 0);
      }
      ibv_send_wr wr{};
      wr.opcode = opcode;
      wr.send_flags = IBV_SEND_SIGNALED;
      if (atomic) {
        wr.wr.atomic = {b_.addr(), 0x0101010101010101, 3, b_.rkey()};
      } else {
        wr.wr.rdma = {b_.addr(), b_.rkey()};
      }
      // An atomic is of 8 bytes; the others grow beyond the end.
      const ibv_sge element = a_.sge(kEnd - bytes + (atomic ? beyond : 0), bytes + (atomic ? 0 : beyond));
      ASSERT_EQ(post_send(left_.get(), wr, element), 0);
      EXPECT_EQ(poll(cq_.get(), 1)[0].status, beyond == 0 ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR) << opcode << beyond;
      if (beyond != 0) {
        EXPECT_EQ(b_.data()[0] != 1, atomic) << "nothing is sent; but an atomic is done when its answer finds no place";
        EXPECT_EQ(a_.data()[kEnd - bytes], 2) << "nothing is brought";
      }
      left_.reset();
      right_.reset();
    }
  }
}

/// An element without bytes uses nothing, wherever it leads and whatever its key.
TEST_F(PostTest, AnEmptyElementNeedsNoRegion) {
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    make_pair({});
    std::memset(b_.data(), 1, 65536);
    std::memset(a_.data(), 2, 65536);
    ibv_sge elements[] = {{1, 0, 0xBAD}, a_.sge(0, 8), {~uint64_t{0}, 0, 0xBAD}};
    ibv_sge targets[] = {{1, 0, 0xBAD}, b_.sge(0, 8), {~uint64_t{0}, 0, 0xBAD}};
    ibv_recv_wr receive{1, nullptr, targets, 3}, *bad_receive = nullptr;
    if (opcode == IBV_WR_SEND) {
      ASSERT_EQ(ibv_post_recv(right_.get(), &receive, &bad_receive), 0);
    }
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = elements;
    wr.num_sge = 3;
    wr.wr.rdma = {b_.addr(), b_.rkey()};
    ASSERT_EQ(ibv_post_send(left_.get(), &wr, &bad), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS) << opcode;
    if (opcode == IBV_WR_SEND) {
      EXPECT_EQ(poll(recv_cq_.get(), 1)[0].byte_len, 8u);
    }
    EXPECT_EQ(std::memcmp(a_.data(), b_.data(), 8), 0) << opcode;
    left_.reset();
    right_.reset();
  }
}

}  // namespace
