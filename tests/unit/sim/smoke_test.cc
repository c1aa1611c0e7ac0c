// Two engines on a clean cable: every operation once, every byte looked at.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "sim/testbed.h"
#include "transport/qp.h"

namespace uroce::sim {
namespace {

void fill(const Buffer& buffer, uint8_t first) { std::iota(buffer.data(), buffer.data() + buffer.size, first); }

class SmokeTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    QpOptions options;
    options.ipv6 = GetParam();
    bed_.connect(a_, b_, options);
    near_ = a_.buffer(10'000);
    far_ = b_.buffer(10'000);
    fill(near_, 1);
    fill(far_, 101);
  }

  Completion run_one(SendWr wr) {
    wr.wr_id = 77;
    wr.flags |= kSendSignaled;
    EXPECT_EQ(a_.send(wr), PostResult::kOk);
    EXPECT_TRUE(bed_.world.run_until_idle());
    const auto done = a_.sent();
    EXPECT_EQ(done.size(), 1u);
    return done.empty() ? Completion{} : done[0];
  }

  Testbed bed_{1};
  Side a_;
  Side b_;
  Buffer near_;
  Buffer far_;
};

INSTANTIATE_TEST_SUITE_P(Families, SmokeTest, testing::Bool(),
                         [](const auto& family) { return family.param ? "Ipv6" : "Ipv4"; });

TEST_P(SmokeTest, ResolvesTheNeighbour) {
  ASSERT_TRUE(bed_.world.run_until_idle());
  EXPECT_TRUE(a_.qp->path_resolved());
  EXPECT_TRUE(b_.qp->path_resolved());
}

TEST_P(SmokeTest, Send) {
  const Sge into = far_.sge(500, 6000);
  ASSERT_EQ(b_.receive(5, into), PostResult::kOk);
  const Sge from = near_.sge(3, 5001);
  SendWr wr;
  wr.opcode = WrOpcode::kSendWithImm;
  wr.imm_or_rkey = 0xAABBCCDD;
  wr.sges = &from;
  wr.num_sge = 1;
  const Completion sent = run_one(wr);
  EXPECT_EQ(sent.status, WcStatus::kSuccess);
  EXPECT_EQ(sent.wr_id, 77u);
  const auto received = b_.received();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, WcStatus::kSuccess);
  EXPECT_EQ(received[0].wr_id, 5u);
  EXPECT_EQ(received[0].opcode, WcOpcode::kRecv);
  EXPECT_EQ(received[0].byte_len, 5001u);
  EXPECT_EQ(received[0].flags, kWcWithImm);
  EXPECT_EQ(received[0].imm_or_rkey, 0xAABBCCDDu);
  EXPECT_EQ(std::memcmp(near_.data() + 3, far_.data() + 500, 5001), 0);
  EXPECT_EQ(far_.data()[499], static_cast<uint8_t>(101 + 499));
  EXPECT_EQ(far_.data()[5501], static_cast<uint8_t>(101 + 5501));
}

TEST_P(SmokeTest, Write) {
  const Sge from = near_.sge(0, 4096);
  SendWr wr;
  wr.opcode = WrOpcode::kRdmaWrite;
  wr.sges = &from;
  wr.num_sge = 1;
  wr.remote_addr = far_.addr(17);
  wr.rkey = far_.key;
  EXPECT_EQ(run_one(wr).status, WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(near_.data(), far_.data() + 17, 4096), 0);
  EXPECT_EQ(far_.data()[16], static_cast<uint8_t>(101 + 16));
  EXPECT_EQ(far_.data()[17 + 4096], static_cast<uint8_t>(101 + 17 + 4096));
  EXPECT_TRUE(b_.received().empty());
}

TEST_P(SmokeTest, Read) {
  const Sge into = near_.sge(100, 9001);
  SendWr wr;
  wr.opcode = WrOpcode::kRdmaRead;
  wr.sges = &into;
  wr.num_sge = 1;
  wr.remote_addr = far_.addr(7);
  wr.rkey = far_.key;
  const Completion done = run_one(wr);
  EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(done.opcode, WcOpcode::kRdmaRead);
  EXPECT_EQ(done.byte_len, 9001u);
  EXPECT_EQ(std::memcmp(near_.data() + 100, far_.data() + 7, 9001), 0);
  EXPECT_EQ(near_.data()[99], 100);
  EXPECT_EQ(near_.data()[9101], static_cast<uint8_t>(1 + 9101));
}

TEST_P(SmokeTest, Atomics) {
  const uint64_t start = 1000;
  std::memcpy(far_.data() + 64, &start, 8);
  const Sge into = near_.sge(8, 8);
  SendWr wr;
  wr.opcode = WrOpcode::kFetchAdd;
  wr.sges = &into;
  wr.num_sge = 1;
  wr.remote_addr = far_.addr(64);
  wr.rkey = far_.key;
  wr.compare_add = 11;
  EXPECT_EQ(run_one(wr).opcode, WcOpcode::kFetchAdd);
  uint64_t before = 0;
  std::memcpy(&before, near_.data() + 8, 8);
  EXPECT_EQ(before, 1000u);
  wr.opcode = WrOpcode::kCompareSwap;
  wr.compare_add = 1011;
  wr.swap = 5;
  EXPECT_EQ(run_one(wr).opcode, WcOpcode::kCompSwap);
  std::memcpy(&before, near_.data() + 8, 8);
  EXPECT_EQ(before, 1011u);
  wr.compare_add = 1011;
  wr.swap = 6;
  run_one(wr);
  uint64_t now = 0;
  std::memcpy(&now, far_.data() + 64, 8);
  EXPECT_EQ(now, 5u);
}

}  // namespace
}  // namespace uroce::sim
