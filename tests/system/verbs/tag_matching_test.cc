// Shared receive queues that match tags: the left queue pair sends, the right one receives from such a queue.
#include <infiniband/tm_types.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "verbs_fixture.h"

namespace verbs_test {
namespace {

constexpr uint64_t kTag = 0x1122334455667788;

struct TmCompletion {
  uint64_t wr_id;
  ibv_wc_status status;
  ibv_wc_opcode opcode;
  unsigned flags;
  uint32_t byte_len;
  ibv_wc_tm_info info;
};

class TagMatchingTest : public PairTest {
 protected:
  TagMatchingTest() {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 256;
    attr.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_TM_INFO;
    tm_cq_ = ibv_create_cq_ex(device(), &attr);
    EXPECT_NE(tm_cq_, nullptr);
    ibv_srq_init_attr_ex srq = attributes();
    srq_.reset(ibv_create_srq_ex(device(), &srq));
    EXPECT_NE(srq_, nullptr);
    left_ = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
    right_ =
        make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {.max_wr = 0, .max_sge = 1, .max_inline = 0, .srq = srq_.get()});
    connect(left_.get(), right_->qp_num);
    connect(right_.get(), left_->qp_num);
    a_.fill(3);
    b_.fill(0);
  }
  void TearDown() override {
    left_.reset();
    right_.reset();
    srq_.reset();
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(tm_cq_)), 0);
  }
  ibv_srq_init_attr_ex attributes() {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {8, 2, 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
    attr.srq_type = IBV_SRQT_TM;
    attr.pd = pd_.get();
    attr.cq = ibv_cq_ex_to_cq(tm_cq_);
    attr.tm_cap = {8, 4};
    return attr;
  }
  int post(ibv_ops_wr& op) {
    ibv_ops_wr* bad = nullptr;
    const int error = ibv_post_srq_ops(srq_.get(), &op, &bad);
    if (error != 0) {
      EXPECT_EQ(bad, &op);
    }
    return error;
  }
  /// Adds a receive at `offset` of the right buffer. Returns its handle.
  uint32_t add(uint64_t wr_id, uint64_t tag, size_t offset, uint32_t bytes, uint64_t mask = ~uint64_t{0}) {
    ibv_sge sge = b_.sge(offset, bytes);
    ibv_ops_wr op{};
    op.wr_id = wr_id + 1000;
    op.opcode = IBV_WR_TAG_ADD;
    op.tm.add = {wr_id, &sge, 1, tag, mask};
    EXPECT_EQ(post(op), 0);
    return op.tm.handle;
  }
  int sync(uint32_t count) {
    ibv_ops_wr op{};
    op.wr_id = 77;
    op.opcode = IBV_WR_TAG_SYNC;
    op.flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
    op.tm.unexpected_cnt = count;
    return post(op);
  }
  void post_ordinary(uint64_t wr_id, size_t offset, uint32_t bytes) {
    ibv_sge sge = b_.sge(offset, bytes);
    ibv_recv_wr wr{wr_id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(srq_.get(), &wr, &bad), 0);
  }
  /// Sends the first bytes of the left buffer, beginning with a header.
  void send(uint8_t operation, uint64_t tag, uint32_t bytes) {
    const ibv_tmh header{operation, {}, htobe32(0xabcdef01), htobe64(tag)};
    std::memcpy(a_.data(), &header, sizeof header);
    ibv_send_wr wr{};
    wr.wr_id = 500;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, bytes)), 0);
  }
  void send_rendezvous(uint64_t tag, uint64_t va, uint32_t rkey, uint32_t length) {
    const ibv_rvh header{htobe64(va), htobe32(rkey), htobe32(length)};
    std::memcpy(a_.data() + sizeof(ibv_tmh), &header, sizeof header);
    send(IBV_TMH_RNDV, tag, sizeof(ibv_tmh) + sizeof header);
  }
  TmCompletion next() {
    ibv_poll_cq_attr attr{};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ibv_start_poll(tm_cq_, &attr) != 0) {
      if (std::chrono::steady_clock::now() < end) continue;
      ADD_FAILURE() << "no completion";
      return {};
    }
    TmCompletion found{tm_cq_->wr_id,
                       tm_cq_->status,
                       ibv_wc_read_opcode(tm_cq_),
                       ibv_wc_read_wc_flags(tm_cq_),
                       ibv_wc_read_byte_len(tm_cq_),
                       {}};
    ibv_wc_read_tm_info(tm_cq_, &found.info);
    ibv_end_poll(tm_cq_);
    return found;
  }
  void expect_next(uint64_t wr_id, ibv_wc_opcode opcode, unsigned flags, uint32_t bytes = 0) {
    const TmCompletion found = next();
    EXPECT_EQ(found.wr_id, wr_id);
    EXPECT_EQ(found.status, IBV_WC_SUCCESS) << ibv_wc_status_str(found.status);
    EXPECT_EQ(found.opcode, opcode);
    EXPECT_EQ(found.flags, flags);
    EXPECT_EQ(found.byte_len, bytes);
    const bool matched = (flags & IBV_WC_TM_MATCH) != 0;
    EXPECT_EQ(found.info.tag, matched ? kTag : 0);
    EXPECT_EQ(found.info.priv, matched ? 0xabcdef01 : 0);
  }
  void expect_next(uint64_t wr_id, ibv_wc_status status) {
    const TmCompletion found = next();
    EXPECT_EQ(found.wr_id, wr_id);
    EXPECT_EQ(found.status, status) << ibv_wc_status_str(found.status);
  }
  static constexpr unsigned kWhole = unsigned{IBV_WC_TM_MATCH} | IBV_WC_TM_DATA_VALID;

  ibv_cq_ex* tm_cq_ = nullptr;
  Owned<ibv_srq> srq_;
};

TEST_F(TagMatchingTest, WhatTheDeviceHas) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
  EXPECT_EQ(attr.tm_caps.max_rndv_hdr_size, 256u);
  EXPECT_EQ(attr.tm_caps.max_num_tags, 1024u);
  EXPECT_EQ(attr.tm_caps.flags, unsigned{IBV_TM_CAP_RC});
  EXPECT_EQ(attr.tm_caps.max_ops, 1024u);
  EXPECT_EQ(attr.tm_caps.max_sge, 4u);
}

/// Masks, in the order of the list, and a message of many packets.
TEST_F(TagMatchingTest, AMessageFillsTheFirstReceiveThatMatches) {
  add(1, kTag + 1, 0, 8192);
  add(2, kTag & ~uint64_t{0xff}, 8192, 8192, ~uint64_t{0xff});
  add(3, kTag, 16384, 8192);
  for (const uint64_t wr_id : {2u, 3u}) {
    send(IBV_TMH_EAGER, kTag, 8000);
    expect_next(wr_id, IBV_WC_TM_RECV, kWhole, 8000 - 16);
    EXPECT_EQ(std::memcmp(b_.data() + (wr_id - 1) * 8192, a_.data() + 16, 8000 - 16), 0);
  }
}

TEST_F(TagMatchingTest, UnexpectedMessagesAreCounted) {
  post_ordinary(7, 0, 256);
  send(IBV_TMH_EAGER, kTag, 100);
  expect_next(7, IBV_WC_TM_RECV, 0, 100);
  EXPECT_EQ(std::memcmp(b_.data(), a_.data(), 100), 0);
  EXPECT_EQ(add(1, kTag, 0, 256), 0u);
  expect_next(1001, IBV_WC_TM_ERR);
  EXPECT_EQ(sync(0), 0);
  expect_next(77, IBV_WC_TM_SYNC, IBV_WC_TM_SYNC_REQ);
  EXPECT_EQ(sync(1), 0);
  expect_next(77, IBV_WC_TM_SYNC, 0);
  EXPECT_NE(add(1, kTag, 0, 256), 0u);
  send(IBV_TMH_EAGER, kTag, 100);
  expect_next(1, IBV_WC_TM_RECV, kWhole, 84);
}

/// An operation that adds a receive can count unexpected messages, too.
TEST_F(TagMatchingTest, CountedWhileAdding) {
  post_ordinary(7, 0, 256);
  send(IBV_TMH_EAGER, kTag, 100);
  expect_next(7, IBV_WC_TM_RECV, 0, 100);
  ibv_sge sge = b_.sge(0, 256);
  ibv_ops_wr op{};
  op.wr_id = 5;
  op.opcode = IBV_WR_TAG_ADD;
  op.flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
  op.tm.unexpected_cnt = 1;
  op.tm.add = {1, &sge, 1, kTag, ~uint64_t{0}};
  EXPECT_EQ(post(op), 0);
  expect_next(5, IBV_WC_TM_ADD, 0);
  EXPECT_NE(op.tm.handle, 0u);
}

TEST_F(TagMatchingTest, MessagesWithoutTag) {
  add(1, kTag, 0, 256);
  post_ordinary(7, 512, 256);
  send(IBV_TMH_NO_TAG, kTag, 100);
  expect_next(7, IBV_WC_TM_NO_TAG, 0, 100);
  EXPECT_EQ(std::memcmp(b_.data() + 512, a_.data(), 100), 0);
}

TEST_F(TagMatchingTest, AReceiveIsRemovedOnce) {
  const uint32_t handle = add(1, kTag, 0, 256);
  ibv_ops_wr op{};
  op.wr_id = 6;
  op.opcode = IBV_WR_TAG_DEL;
  op.flags = IBV_OPS_SIGNALED;
  op.tm.handle = handle;
  EXPECT_EQ(post(op), 0);
  expect_next(6, IBV_WC_TM_DEL, 0);
  EXPECT_EQ(post(op), 0);
  expect_next(6, IBV_WC_TM_ERR);
}

/// The receiver's device reads the data, and tells the sender when its buffer is free.
TEST_F(TagMatchingTest, ARendezvous) {
  constexpr uint32_t kBytes = 30000;
  add(1, kTag, 0, 32768);
  EXPECT_EQ(post_recv(left_.get(), 900, a_.sge(60000, 64)), 0);
  send_rendezvous(kTag, a_.addr() + 1000, a_.rkey(), kBytes);
  expect_next(1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
  expect_next(1, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, kBytes);
  EXPECT_EQ(std::memcmp(b_.data(), a_.data() + 1000, kBytes), 0);
  const ibv_wc notice = poll(recv_cq_.get(), 1)[0];
  EXPECT_EQ(notice.wr_id, 900u);
  EXPECT_EQ(notice.opcode, IBV_WC_RECV);
  EXPECT_EQ(notice.byte_len, sizeof(ibv_tmh));
  ibv_tmh header;
  std::memcpy(&header, a_.data() + 60000, sizeof header);
  EXPECT_EQ(header.opcode, IBV_TMH_FIN);
  EXPECT_EQ(header.app_ctx, htobe32(0xabcdef01));
  EXPECT_EQ(header.tag, htobe64(kTag));
  EXPECT_EQ(poll(cq_.get(), 1)[0].wr_id, 500u);
  expect_nothing(cq_.get());  // the right queue pair's own work is the device's
}

TEST_F(TagMatchingTest, AnUnexpectedRendezvous) {
  post_ordinary(7, 0, 256);
  send_rendezvous(kTag, a_.addr(), a_.rkey(), 1000);
  expect_next(7, IBV_WC_TM_RECV, 0, 32);
  EXPECT_EQ(std::memcmp(b_.data(), a_.data(), 32), 0);
}

TEST_F(TagMatchingTest, ARendezvousWithAKeyThatLies) {
  add(1, kTag, 0, 4096);
  send_rendezvous(kTag, a_.addr(), a_.rkey() ^ 0x5500, 4096);
  expect_next(1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
  expect_next(1, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(TagMatchingTest, ARendezvousLongerThanItsReceive) {
  add(1, kTag, 0, 4096);
  send_rendezvous(kTag, a_.addr(), a_.rkey(), 4097);
  expect_next(1, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(TagMatchingTest, AMessageThatIsNoneOfTagMatching) {
  post_ordinary(7, 0, 256);
  send(9, kTag, 16);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(TagMatchingTest, OperationsThatAreRefused) {
  ibv_ops_wr op{};
  ibv_sge sges[5] = {};
  op.opcode = IBV_WR_TAG_ADD;
  op.tm.add = {1, sges, 5, kTag, 0};
  EXPECT_EQ(post(op), EINVAL);
  op.tm.add.num_sge = -1;
  EXPECT_EQ(post(op), EINVAL);
  op.tm.add = {1, nullptr, 1, kTag, 0};
  EXPECT_EQ(post(op), EINVAL);
  op = {};
  op.opcode = static_cast<ibv_ops_wr_opcode>(3);
  EXPECT_EQ(post(op), EINVAL);
  op.opcode = IBV_WR_TAG_SYNC;
  op.flags = 4;
  EXPECT_EQ(post(op), EINVAL);
  for (uint64_t i = 0; i < 8; i++) EXPECT_NE(add(i, i, 0, 16), 0u);
  op = {};
  op.opcode = IBV_WR_TAG_ADD;
  EXPECT_EQ(post(op), ENOMEM);
  op.opcode = IBV_WR_TAG_SYNC;
  op.flags = IBV_OPS_SIGNALED;
  for (int i = 0; i < 4; i++) EXPECT_EQ(post(op), 0);
  EXPECT_EQ(post(op), ENOMEM);
}

TEST_F(TagMatchingTest, QueuesThatAreRefused) {
  const auto refused = [&](auto change) {
    ibv_srq_init_attr_ex attr = attributes();
    change(attr);
    errno = 0;
    EXPECT_EQ(ibv_create_srq_ex(device(), &attr), nullptr);
    return errno;
  };
  EXPECT_EQ(refused([](auto& a) { a.comp_mask &= ~IBV_SRQ_INIT_ATTR_TM; }), EINVAL);
  EXPECT_EQ(refused([](auto& a) { a.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ; }), EINVAL);
  EXPECT_EQ(refused([](auto& a) { a.cq = nullptr; }), EINVAL);
  EXPECT_EQ(refused([](auto& a) { a.pd = nullptr; }), EINVAL);
  EXPECT_EQ(refused([](auto& a) { a.tm_cap.max_num_tags = 0; }), EINVAL);
  EXPECT_EQ(refused([](auto& a) { a.tm_cap.max_num_tags = 1025; }), EINVAL);
  EXPECT_EQ(refused([](auto& a) { a.tm_cap.max_ops = 0; }), EINVAL);
  EXPECT_EQ(refused([](auto& a) { a.tm_cap.max_ops = 1025; }), EINVAL);
  EXPECT_EQ(refused([](auto& a) { a.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD; }), EOPNOTSUPP);
}

TEST_F(TagMatchingTest, TheQueueIsASharedReceiveQueue) {
  ibv_srq_attr attr{};
  EXPECT_EQ(ibv_query_srq(srq_.get(), &attr), 0);
  EXPECT_EQ(attr.max_wr, 8u);
  EXPECT_EQ(attr.max_sge, 2u);
  uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq_.get(), &number), EINVAL);  // only XRC queues have one
  EXPECT_EQ(ibv_destroy_srq(srq_.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(tm_cq_)), EBUSY);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_.get();
  init.srq = srq_.get();
  init.cap = {1, 0, 1, 0, 0};
  init.qp_type = IBV_QPT_UD;
  EXPECT_EQ(ibv_create_qp(pd_.get(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_srq_init_attr basic{nullptr, {4, 1, 0}};
  Owned<ibv_srq> ordinary(ibv_create_srq(pd_.get(), &basic));
  ibv_ops_wr op{};
  ibv_ops_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_ops(ordinary.get(), &op, &bad), EINVAL);
  EXPECT_EQ(bad, &op);
}

}  // namespace
}  // namespace verbs_test
