// FLUSH and ATOMIC_WRITE. Both came to libibverbs with release 45; what its headers name, this file names by number
// where the headers that it is built with are older.
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

constexpr int kFlushGlobal = 1 << 8;
constexpr int kFlushPersistent = 1 << 9;
constexpr uint64_t kWithFlush = 1 << 11;
constexpr uint64_t kWithAtomicWrite = 1 << 12;
constexpr int kWcFlush = 8;
constexpr int kWcAtomicWrite = 9;
constexpr uint8_t kTypeGlobal = 1;
constexpr uint8_t kTypePersistent = 2;
constexpr uint8_t kRange = 0;
constexpr uint8_t kWhole = 1;

/// As the inline function ibv_wr_flush of later headers calls it: by the member behind wr_atomic_write.
void flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level) {
  void (*operation)(ibv_qp_ex*, uint32_t, uint64_t, size_t, uint8_t, uint8_t) = nullptr;
  const auto* members = reinterpret_cast<const uint8_t*>(qp);
  std::memcpy(&operation, members + offsetof(ibv_qp_ex, wr_atomic_write) + sizeof(void*), sizeof operation);
  ASSERT_NE(operation, nullptr);
  operation(qp, rkey, addr, length, type, level);
}

class FlushTest : public PairTest {
 protected:
  void make_flushing_pair(unsigned access = kAllAccess | kFlushGlobal, unsigned peer_access = kFlushGlobal) {
    QpOptions options;
    options.send_ops = kWithFlush | kWithAtomicWrite | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
    make_pair(options);
    qp_ = ibv_qp_to_qp_ex(left_.get());
    ASSERT_NE(qp_, nullptr);
    target_ = std::make_unique<Buffer>(pd_.get(), 4096, static_cast<int>(access));
    ibv_qp_attr attr{};
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | peer_access;
    ASSERT_EQ(ibv_modify_qp(right_.get(), &attr, IBV_QP_ACCESS_FLAGS), 0);
  }
  void begin(uint64_t wr_id) {
    ibv_wr_start(qp_);
    qp_->wr_flags = IBV_SEND_SIGNALED;
    qp_->wr_id = wr_id;
  }
  ibv_wc_status status_of_flush(uint8_t type, uint8_t level, uint64_t offset = 0) {
    begin(7);
    flush(qp_, target_->rkey(), target_->addr() + offset, 64, type, level);
    EXPECT_EQ(ibv_wr_complete(qp_), 0);
    const auto wcs = poll(cq_.get(), 1);
    return wcs.empty() ? IBV_WC_GENERAL_ERR : wcs[0].status;
  }
  ibv_qp_ex* qp_ = nullptr;
  std::unique_ptr<Buffer> target_;
};

TEST_F(FlushTest, TheDeviceSaysWhatItHas) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &attr), 0);
  EXPECT_NE(attr.device_cap_flags_ex & uint64_t{1} << 38, 0u) << "FLUSH for visibility";
  EXPECT_EQ(attr.device_cap_flags_ex & uint64_t{1} << 39, 0u) << "FLUSH for persistence";
  EXPECT_NE(attr.device_cap_flags_ex & uint64_t{1} << 40, 0u) << "ATOMIC_WRITE";
}

TEST_F(FlushTest, WriteFlushAtomicWrite) {
  make_flushing_pair();
  a_.fill(3);
  uint64_t word = 0x1122334455667788;
  begin(1);
  ibv_wr_rdma_write(qp_, target_->rkey(), target_->addr());
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 64);
  qp_->wr_id = 2;
  flush(qp_, target_->rkey(), target_->addr(), 64, kTypeGlobal, kRange);
  qp_->wr_id = 3;
  ibv_wr_atomic_write(qp_, target_->rkey(), target_->addr() + 128, &word);
  word = 0;
  qp_->wr_id = 4;
  flush(qp_, target_->rkey(), 0, 0, kTypeGlobal, kWhole);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  const auto wcs = poll(cq_.get(), 4);
  ASSERT_EQ(wcs.size(), 4u);
  const int opcodes[] = {IBV_WC_RDMA_WRITE, kWcFlush, kWcAtomicWrite, kWcFlush};
  for (size_t i = 0; i < 4; i++) {
    EXPECT_EQ(wcs[i].wr_id, i + 1);
    EXPECT_EQ(wcs[i].status, IBV_WC_SUCCESS) << i;
    EXPECT_EQ(static_cast<int>(wcs[i].opcode), opcodes[i]) << i;
  }
  EXPECT_EQ(std::memcmp(target_->data(), a_.data(), 64), 0);
  std::memcpy(&word, target_->data() + 128, 8);
  EXPECT_EQ(word, 0x1122334455667788u);
}

TEST_F(FlushTest, WhatAFlushMayNot) {
  make_flushing_pair();
  EXPECT_EQ(status_of_flush(kTypeGlobal, kRange, 4095), IBV_WC_REM_ACCESS_ERR) << "behind the region";
  make_flushing_pair(kAllAccess);
  EXPECT_EQ(status_of_flush(kTypeGlobal, kRange), IBV_WC_REM_ACCESS_ERR) << "a region without the right";
  make_flushing_pair(kAllAccess | kFlushGlobal, 0);
  EXPECT_EQ(status_of_flush(kTypeGlobal, kRange), IBV_WC_REM_INV_REQ_ERR) << "a queue pair without the right";
}

/// Ordinary memory does not persist, so no region has the right, whatever the queue pair grants.
TEST_F(FlushTest, NothingPersists) {
  std::vector<uint8_t> memory(4096);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd_.get(), memory.data(), memory.size(), kAllAccess | kFlushPersistent), nullptr);
  EXPECT_EQ(errno, EINVAL);
  make_flushing_pair(kAllAccess | kFlushGlobal, kFlushGlobal | kFlushPersistent);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(right_.get(), &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
  EXPECT_EQ(attr.qp_access_flags & (unsigned{kFlushGlobal} | kFlushPersistent),
            unsigned{kFlushGlobal} | kFlushPersistent);
  EXPECT_EQ(status_of_flush(kTypePersistent, kRange), IBV_WC_REM_ACCESS_ERR);
  make_flushing_pair(kAllAccess | kFlushGlobal, kFlushGlobal);
  EXPECT_EQ(status_of_flush(kTypePersistent, kRange), IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(FlushTest, ArgumentsAreChecked) {
  make_flushing_pair();
  const struct {
    size_t length;
    uint8_t type;
    uint8_t level;
  } kBad[] = {{64, 0, kRange}, {64, 4, kRange}, {64, kTypeGlobal, 2}, {size_t{1} << 32, kTypeGlobal, kRange}};
  for (const auto& bad : kBad) {
    begin(1);
    flush(qp_, target_->rkey(), target_->addr(), bad.length, bad.type, bad.level);
    EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  }
  begin(1);
  ibv_wr_atomic_write(qp_, target_->rkey(), target_->addr(), nullptr);
  EXPECT_EQ(ibv_wr_complete(qp_), EFAULT);
  const uint64_t word = 1;
  begin(1);
  ibv_wr_atomic_write(qp_, target_->rkey(), target_->addr(), &word);
  ibv_wr_set_sge(qp_, a_.lkey(), a_.addr(), 8);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL) << "it has its data already";
  expect_nothing(cq_.get());
}

/// ibv_send_wr has no members for them.
TEST_F(FlushTest, IbvPostSendHasNeither) {
  make_flushing_pair();
  for (const int opcode : {14, 15}) {
    ibv_send_wr wr{};
    wr.opcode = static_cast<ibv_wr_opcode>(opcode);
    wr.wr.rdma.remote_addr = target_->addr();
    wr.wr.rdma.rkey = target_->rkey();
    EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), EINVAL) << opcode;
  }
}

/// A misaligned address is an invalid request, as for the other atomics.
TEST_F(FlushTest, AtomicWriteNeedsAnAlignedAddress) {
  make_flushing_pair();
  const uint64_t word = 1;
  begin(1);
  ibv_wr_atomic_write(qp_, target_->rkey(), target_->addr() + 4, &word);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  const auto wcs = poll(cq_.get(), 1);
  ASSERT_EQ(wcs.size(), 1u);
  EXPECT_EQ(wcs[0].status, IBV_WC_REM_INV_REQ_ERR);
}

}  // namespace
