// Events and interrupts: arming as in the RTL's cpl_queue_manager.v, the minimum interval as in irq_rate_limit.v.
#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

class CardEvents : public Rig {
 protected:
  static constexpr size_t kEqRing = 0x20000;

  /// The RX CQ (1) reports to EQ 2, which raises interrupt 5.
  void bring_up_with_events() {
    bring_up();
    start_cq(at::kEq + 2 * 0x10, kEqRing, 3, 5);
    write(at::kCq + 0x10 + 0x0c, 0x40000100);
    write(at::kCq + 0x10 + 0x0c, 0xc0000002);
    write(at::kCq + 0x10 + 0x0c, 0x40000101);
    for (unsigned i = 0; i < 16; ++i) put_rx(i, 2048);
    ring(at::kRxq, 16);
  }
  void receive_one() {
    wire().to_card.push_back(plain_frame(60));
    run();
  }
  void arm_cq() { write(at::kCq + 0x10 + 0x0c, 0x40000201); }
  void arm_eq() { write(at::kEq + 2 * 0x10 + 0x0c, 0x40000201); }
  uint32_t events() { return read(at::kEq + 2 * 0x10 + 0x0c) & 0xffff; }
};

TEST_F(CardEvents, ArmedCqGivesOneEvent) {
  bring_up_with_events();
  receive_one();
  EXPECT_EQ(events(), 0u);
  write(at::kCq + 0x10 + 0x0c, 0x80900001);
  arm_cq();
  EXPECT_NE(read(at::kCq + 0x10 + 8) & (1u << 17), 0u);
  EXPECT_EQ(events(), 0u);
  receive_one();
  receive_one();
  EXPECT_EQ(events(), 1u) << "armed for one";
  EXPECT_EQ(read(at::kCq + 0x10 + 8) & (1u << 17), 0u);
  EXPECT_EQ(host_bytes(kEqRing, 4), (Bytes{0, 0, 1, 0})) << "completion event of CQ 1";
  EXPECT_EQ(host_bytes(kEqRing + 4, 27), Bytes(27, 0));
  EXPECT_EQ(host[kEqRing + 0x1f], 0x80);
}

TEST_F(CardEvents, ArmingACqThatIsNotEmptyGivesTheEventAtOnce) {
  bring_up_with_events();
  receive_one();
  arm_cq();
  EXPECT_EQ(events(), 1u);
  EXPECT_EQ(read(at::kCq + 0x10 + 8) & (1u << 17), 0u) << "and it is not armed any more";
  receive_one();
  EXPECT_EQ(events(), 1u);
}

TEST_F(CardEvents, ConsumerAndArmLooksAtTheNewPointer) {
  bring_up_with_events();
  receive_one();
  write(at::kCq + 0x10 + 0x0c, 0x80910001);
  EXPECT_EQ(read(at::kCq + 0x10 + 0x0c), 0x00010001u);
  EXPECT_EQ(events(), 0u);
  receive_one();
  EXPECT_EQ(events(), 1u);
  receive_one();
  write(at::kCq + 0x10 + 0x0c, 0x80910002);  // one entry is left in the queue
  EXPECT_EQ(events(), 2u);
}

TEST_F(CardEvents, DisarmingAndTheContinuousBit) {
  bring_up_with_events();
  arm_cq();
  write(at::kCq + 0x10 + 0x0c, 0x40000200);
  EXPECT_EQ(read(at::kCq + 0x10 + 8) & (7u << 17), 0u);
  receive_one();
  EXPECT_EQ(events(), 0u);
  // The RTL has a continuous bit (18), but no command sets it.
  write(at::kCq + 0x10 + 0x0c, 0x40000203);
  EXPECT_EQ(read(at::kCq + 0x10 + 8) & (1u << 18), 0u);
}

TEST_F(CardEvents, ArmedEqInterrupts) {
  bring_up_with_events();
  arm_cq();
  receive_one();
  EXPECT_TRUE(interrupts.empty());
  arm_eq();  // not empty, so it fires at once
  EXPECT_EQ(interrupts, (std::vector<unsigned>{5}));
  write(at::kEq + 2 * 0x10 + 0x0c, 0x80910001);
  now_ns += 1'000'000;
  run();
  write(at::kCq + 0x10 + 0x0c, 0x80910001);
  EXPECT_EQ(interrupts.size(), 1u);
  receive_one();
  EXPECT_EQ(interrupts, (std::vector<unsigned>{5, 5}));
}

TEST_F(CardEvents, MinimumIntervalHoldsAnInterruptBack) {
  bring_up_with_events();
  write(0x4c, 20);
  const auto again = [&] {
    arm_eq();
    write(at::kCq + 0x10 + 0x0c, 0x80910000 | (read(at::kCq + 0x10 + 0x0c) & 0xffff));
    receive_one();
    write(at::kEq + 2 * 0x10 + 0x0c, 0x80900000 | events());
  };
  again();
  EXPECT_EQ(interrupts.size(), 1u);
  again();
  again();
  EXPECT_EQ(interrupts.size(), 1u);
  now_ns += 19'999;
  run();
  EXPECT_EQ(interrupts.size(), 1u);
  now_ns += 1;
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(interrupts.size(), 2u) << "two asked for: one fires";
  now_ns += 20'000;
  run();
  EXPECT_EQ(interrupts.size(), 2u);
  again();
  EXPECT_EQ(interrupts.size(), 3u) << "the timer has run out: at once";
}

TEST_F(CardEvents, IntervalZeroHoldsNothingBack) {
  bring_up_with_events();
  write(0x4c, 0);
  for (unsigned i = 0; i < 3; ++i) {
    arm_eq();
    write(at::kCq + 0x10 + 0x0c, 0x80910000 | i);
    receive_one();
    write(at::kEq + 2 * 0x10 + 0x0c, 0x80900000 | events());
  }
  EXPECT_EQ(interrupts.size(), 3u);
}

TEST_F(CardEvents, FullEqLosesEvents) {
  bring_up_with_events();
  for (unsigned i = 0; i < 10; ++i) {
    write(at::kCq + 0x10 + 0x0c, 0x80910000 | i);
    receive_one();
  }
  EXPECT_EQ(events(), 8u);
  EXPECT_EQ(card->report().events_lost_eq_full, 2u);
}

TEST_F(CardEvents, EqThatIsOffGetsNothing) {
  bring_up_with_events();
  write(at::kEq + 2 * 0x10 + 0x0c, 0x40000100);
  arm_cq();
  receive_one();
  EXPECT_EQ(events(), 0u);
  EXPECT_EQ(card->report().events_lost_eq_full, 1u);
}

}  // namespace
}  // namespace mqnic::card::test
