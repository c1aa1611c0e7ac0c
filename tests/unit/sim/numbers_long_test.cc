// More messages on one connection than the 24 bits of a message's number, and of a packet's: each comes once, in order.
#include <gtest/gtest.h>

#include "sim/testbed.h"
#include "transport/counters.h"

namespace uroce::sim {
namespace {

constexpr uint64_t kMessages = (uint64_t{1} << 24) + 100'000;
constexpr uint32_t kDepth = 128;

class Numbers : public testing::Test {
 protected:
  Numbers() : bed_(1) {
    QpOptions options;
    options.cap = {kDepth, kDepth, 1, 1, 16};
    options.sq_sig_all = true;
    bed_.connect(from_, to_, options);
    source_ = from_.buffer(16);
    target_ = to_.buffer(16);
    EXPECT_TRUE(bed_.world.run_until_idle());
    bed_.cable.set({.loss = 0.0002});
    for (uint32_t i = 0; i < kDepth; i++) receive();
    bed_.a.set_program([this] { send(); });
    bed_.b.set_program([this] { take(); });
  }

  void receive() {
    const Sge sge = target_.sge();
    ASSERT_EQ(to_.engine().post_recv(*to_.qp, {0, &sge, 1}, to_.host->now()), PostResult::kOk);
  }

  void send() {
    for (uint32_t got = from_.send_cq->poll(completions_); got > 0; got--) {
      ASSERT_EQ(completions_[got - 1].status, WcStatus::kSuccess);
      sent_++;
    }
    const Sge sge = source_.sge(0, 8);
    SendWr wr;
    wr.opcode = WrOpcode::kSendWithImm;
    wr.sges = &sge;
    wr.num_sge = 1;
    bool posted = false;
    for (; posted_ < kMessages && posted_ - sent_ < kDepth; posted_++, posted = true) {
      wr.imm_or_rkey = static_cast<uint32_t>(posted_);
      ASSERT_EQ(from_.engine().post_send(*from_.qp, wr, from_.host->now()), PostResult::kOk);
    }
    if (posted) bed_.a.wake();
  }

  void take() {
    const uint32_t got = to_.recv_cq->poll(completions_);
    for (uint32_t i = 0; i < got; i++) {
      ASSERT_EQ(completions_[i].status, WcStatus::kSuccess);
      ASSERT_EQ(completions_[i].imm_or_rkey, static_cast<uint32_t>(received_++));
      receive();
    }
  }

  Testbed bed_;
  Side from_;
  Side to_;
  Buffer source_;
  Buffer target_;
  Completion completions_[kDepth];
  uint64_t posted_ = 0;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

TEST_F(Numbers, Wrap) {
  const auto done = [this] { return HasFatalFailure() || received_ == kMessages; };
  ASSERT_TRUE(bed_.world.run_until(done, milliseconds(600'000))) << received_;
  EXPECT_GT(bed_.a.engine().counters().retransmits, 1000u);
  ASSERT_TRUE(bed_.world.run_until_idle());
  EXPECT_EQ(sent_, kMessages);
}

}  // namespace
}  // namespace uroce::sim
