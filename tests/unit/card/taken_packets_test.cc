// What the TX engine takes in advance. The lines in quotation marks are from the comparison with the RTL.
#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

constexpr unsigned kLog2 = 6, kEntries = 1u << kLog2;
constexpr size_t kOtherCq = 0x18000;

class TakenPackets : public Rig {
 protected:
  /// A ring of 64 entries on a CQ of as many, whose port is held; entry i has buffer i % 16.
  void hold(unsigned posted) {
    bring_up(0, kLog2);
    write(at::kTxControl, 0);
    post(0, posted, 1);
    run();
  }
  void post(unsigned first, unsigned count, uint8_t seed) {
    for (unsigned i = first; i < first + count; ++i) {
      const size_t buffer = kTxBuffers + (i % 16) * kBufferBytes;
      put(buffer, plain_frame(60 + i % 16, seed));
      put_descriptor(kTxRing + (i % kEntries) * 16, 60 + i % 16, kHostAddress + buffer);
    }
    ring(at::kTxq, first + count);
  }
};

// "Up to 32 packets are taken from the ring at once: consumer pointer 32 ahead of completions, and the queue's active
// bit is clear."
TEST_F(TakenPackets, AreThirtyTwoAtMost) {
  hold(40);
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00200028u);
  EXPECT_EQ(read(at::kTxq + 0x08), 1u) << "enabled, not active";
  EXPECT_EQ(read(at::kCq + 0x0c), 0u) << "nothing is complete";
  EXPECT_TRUE(wire().from_card.empty());
  write(at::kTxControl, 1);
  run();
  EXPECT_EQ(wire().from_card.size(), 40u);
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00280028u);
  EXPECT_EQ(read(at::kCq + 0x0c), 40u);
}

// "After disable, reconfigure, enable with nothing posted, the 32 old frames leave (data read late, from buffers that
// may be reused) and 32 completions with the old indices arrive in whatever CQ the queue now names."
TEST_F(TakenPackets, LeaveInTheNextLifeOfTheirQueue) {
  hold(40);
  write(at::kTxq + 0x10, 0x40000100);
  start_cq(at::kCq, kOtherCq, kLog2);
  start_ring(at::kTxq, kTxRing + 0x800, kLog2, 0, 0);
  for (unsigned i = 0; i < 16; ++i) put(kTxBuffers + i * kBufferBytes, plain_frame(100, 77));
  write(at::kTxControl, 1);
  run();
  ASSERT_EQ(wire().from_card.size(), 32u);
  for (unsigned i = 0; i < 32; ++i) {
    const Bytes late = plain_frame(100, 77);
    EXPECT_EQ(wire().from_card[i], Bytes(late.begin(), late.begin() + 60 + i % 16)) << i;
    EXPECT_EQ(u16(kOtherCq + i * 32), 0u) << "of queue 0";
    EXPECT_EQ(u16(kOtherCq + i * 32 + 2), i) << "the index of its first life";
  }
  EXPECT_EQ(read(at::kCq + 0x0c), 32u);
  EXPECT_EQ(read(at::kTxq + 0x10), 0u) << "the new ring is empty";
}

// tx_engine.v remembers the CQ of each packet: the number that the ring had when it was taken.
TEST_F(TakenPackets, CompleteIntoTheQueueThatTheirRingHadThen) {
  hold(4);
  write(at::kTxq + 0x10, 0x40000100);
  start_cq(at::kCq + 0x20, kOtherCq, kLog2);
  start_ring(at::kTxq, kTxRing + 0x800, kLog2, 0, 2);
  write(at::kTxControl, 1);
  run();
  EXPECT_EQ(wire().from_card.size(), 4u);
  EXPECT_EQ(read(at::kCq + 0x0c), 4u);
  EXPECT_EQ(read(at::kCq + 0x2c), 0u);
}

TEST_F(TakenPackets, LoseTheirCompletionsWhileTheCqIsOff) {
  hold(4);
  write(at::kTxq + 0x10, 0x40000100);
  write(at::kCq + 0x0c, 0x40000100);
  write(at::kTxControl, 1);
  run();
  EXPECT_EQ(wire().from_card.size(), 4u);
  EXPECT_EQ(read(at::kCq + 0x0c), 0u);
}

TEST_F(TakenPackets, AreForgottenByAReset) {
  hold(4);
  card->reset();
  write(at::kTxControl, 1);
  write(at::kSchedulerControl, 1);
  run();
  EXPECT_TRUE(wire().from_card.empty());
}

// "The ring's consumer runs on to the producer (2 of 2); only rst cures it."
TEST_F(TakenPackets, StandBehindOneOfLengthZero) {
  bring_up(0, kLog2);
  post(0, 20, 1);
  put_descriptor(kTxRing + 3 * 16, 0, kHostAddress + kTxBuffers);
  run();
  EXPECT_EQ(wire().from_card.size(), 3u);
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00140014u);
  EXPECT_EQ(read(at::kCq + 0x0c), 3u);
  run();
  EXPECT_EQ(wire().from_card.size(), 3u);
}

// The cable becomes full in the middle of a run: of what follows at most 32 packets are taken, and all leave once, in
// order.
TEST_F(TakenPackets, AreThoseForWhichTheCableHasNoRoomInARun) {
  for (const size_t room : {size_t{1}, size_t{7}, size_t{20}}) {
    bring_up(0, kLog2);
    wire().from_card.clear();
    wire().room = room;
    post(0, 60, 1);
    run();
    EXPECT_EQ(wire().from_card.size(), room);
    EXPECT_EQ(read(at::kTxq + 0x10), static_cast<uint32_t>(room + 32) << 16 | 60u);
    EXPECT_EQ(read(at::kCq + 0x0c), room);
    wire().room = 1000000;
    run();
    ASSERT_EQ(wire().from_card.size(), 60u);
    for (unsigned i = 0; i < 60; ++i) {
      EXPECT_EQ(wire().from_card[i], plain_frame(60 + i % 16, 1)) << i;
      EXPECT_EQ(u16(kTxCq + i * 32 + 2), i);
    }
    write(at::kTxq + 0x10, 0x40000100);
  }
}

}  // namespace
}  // namespace mqnic::card::test
