// Queue registers: every command word, in every state, and what the pointers do. Command semantics as in the RTL's
// queue_manager.v and cpl_queue_manager.v.
#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

class CardQueues : public Rig {
 protected:
  uint64_t bad() { return card->report().bad_register_writes; }
};

TEST_F(CardQueues, RingConfiguration) {
  for (const uint32_t queue : {at::kTxq, at::kTxq + 63 * 0x20, at::kRxq, at::kRxq + 7 * 0x20}) {
    write(queue + 0x00, 0x76543000);
    write(queue + 0x04, 0x00000089);
    write(queue + 0x10, 0x8002030f);  // 32768 blocks of 8
    write(queue + 0x10, 0xc000007f);  // the last CQ
    write(queue + 0x10, 0x80801234);
    write(queue + 0x10, 0x80905678);
    EXPECT_EQ(read(queue + 0x00), 0x76543000u);
    EXPECT_EQ(read(queue + 0x04), 0x00000089u);
    EXPECT_EQ(read(queue + 0x08), 0u);
    EXPECT_EQ(read(queue + 0x0c), 0x3f00007fu);
    EXPECT_EQ(read(queue + 0x10), 0x56781234u);
    write(queue + 0x10, 0x40000101);
    EXPECT_EQ(read(queue + 0x08), 1u);
    write(queue + 0x10, 0x40000100);
    EXPECT_EQ(read(queue + 0x08), 0u);
  }
  EXPECT_EQ(bad(), 0u);
}

TEST_F(CardQueues, CompletionQueueConfiguration) {
  for (const uint32_t queue : {at::kCq, at::kCq + 127 * 0x10, at::kEq, at::kEq + 15 * 0x10}) {
    write(queue + 0x00, 0x76543000);
    write(queue + 0x04, 0x00000089);
    write(queue + 0x0c, 0x8002000f);
    write(queue + 0x0c, 0xc000000f);
    write(queue + 0x0c, 0x80801234);
    write(queue + 0x0c, 0x80905678);
    EXPECT_EQ(read(queue + 0x00), 0x76543000u);
    EXPECT_EQ(read(queue + 0x04), 0x00000089u);
    EXPECT_EQ(read(queue + 0x08), 0xf000000fu);
    EXPECT_EQ(read(queue + 0x0c), 0x56781234u);
    write(queue + 0x0c, 0x40000101);
    EXPECT_EQ(read(queue + 0x08), 0xf001000fu);
    write(queue + 0x0c, 0x40000100);
    EXPECT_EQ(read(queue + 0x08), 0xf000000fu);
  }
  EXPECT_EQ(bad(), 0u);
}

TEST_F(CardQueues, BaseIsAlignedToFourKilobytes) {
  write(at::kTxq, 0x12345678);
  EXPECT_EQ(read(at::kTxq), 0x12345000u);
  write(at::kCq, 0xffffffff);
  EXPECT_EQ(read(at::kCq), 0xfffff000u);
  EXPECT_EQ(bad(), 2u) << "taken, but not as it was meant";
}

TEST_F(CardQueues, EnabledRingRefusesConfiguration) {
  start_ring(at::kTxq, kTxRing, 4, 1, 5);
  const uint32_t base = read(at::kTxq), high = read(at::kTxq + 4), size = read(at::kTxq + 0x0c);
  write(at::kTxq, 0xabcde000);
  write(at::kTxq + 4, 1);
  write(at::kTxq + 0x10, 0x80020002);
  write(at::kTxq + 0x10, 0xc0000001);
  write(at::kTxq + 0x10, 0x80900007);
  EXPECT_EQ(read(at::kTxq), base);
  EXPECT_EQ(read(at::kTxq + 4), high);
  EXPECT_EQ(read(at::kTxq + 0x0c), size);
  EXPECT_EQ(read(at::kTxq + 0x10), 0u);
  EXPECT_EQ(bad(), 5u);
  write(at::kTxq + 0x10, 0x80800007);  // a doorbell is allowed at any time
  EXPECT_EQ(read(at::kTxq + 0x10), 7u);
  EXPECT_EQ(bad(), 5u);
}

TEST_F(CardQueues, EnabledCompletionQueueRefusesConfiguration) {
  start_cq(at::kEq, kTxCq, 4, 3);
  const uint32_t base = read(at::kEq), control = read(at::kEq + 8);
  write(at::kEq, 0xabcde000);
  write(at::kEq + 0x0c, 0x80020002);
  write(at::kEq + 0x0c, 0xc0000001);
  write(at::kEq + 0x0c, 0x80800007);
  EXPECT_EQ(read(at::kEq), base);
  EXPECT_EQ(read(at::kEq + 8), control);
  EXPECT_EQ(read(at::kEq + 0x0c), 0u);
  EXPECT_EQ(bad(), 4u);
  write(at::kEq + 0x0c, 0x80900007);  // so is moving its consumer pointer
  EXPECT_EQ(read(at::kEq + 0x0c), 0x00070000u);
}

TEST_F(CardQueues, AnyReadOnlyRegisterTakesCommands) {
  write(at::kTxq + 0x08, 0x80020004);
  write(at::kTxq + 0x0c, 0xc0000009);
  EXPECT_EQ(read(at::kTxq + 0x0c), 0x04000009u);
  write(at::kCq + 0x08, 0x80020005);
  EXPECT_EQ(read(at::kCq + 0x08), 0x50000000u);
  EXPECT_EQ(bad(), 0u);
}

TEST_F(CardQueues, VfIsTakenWithoutEffect) {
  write(at::kTxq + 0x10, 0x80010007);
  write(at::kCq + 0x0c, 0x80010007);
  EXPECT_EQ(read(at::kTxq) | read(at::kTxq + 4) | read(at::kTxq + 8) | read(at::kTxq + 0x0c) | read(at::kTxq + 0x10),
            0u);
  EXPECT_EQ(read(at::kCq) | read(at::kCq + 4) | read(at::kCq + 8) | read(at::kCq + 0x0c), 0u);
  EXPECT_EQ(bad(), 0u);
}

TEST_F(CardQueues, UnknownCommandsAreRefused) {
  uint64_t refused = 0;
  for (const uint32_t word : {0u, 1u, 0x80030000u, 0x80910000u, 0x40000200u, 0x40000301u, 0xffffffffu}) {
    write(at::kTxq + 0x10, word);
    EXPECT_EQ(bad(), ++refused) << std::hex << word;
  }
  for (const uint32_t word : {0u, 1u, 0x80030000u, 0x40000301u, 0xffffffffu}) {
    write(at::kCq + 0x0c, word);
    EXPECT_EQ(bad(), ++refused) << std::hex << word;
  }
  write(at::kTxq + 0x14, 0x80020004);  // behind the last register
  EXPECT_EQ(bad(), ++refused);
  EXPECT_EQ(read(at::kTxq + 0x0c), 0u);
}

// "Queue number past the last: aliases to a low queue in a small build."
TEST_F(CardQueues, ANumberPastTheLastIsALowQueue) {
  CardConfig config;
  config.tx_queues = 48;  // the number has six bits
  build(config);
  write(at::kTxq + (64 + 5) * 0x20 + 0x10, 0x80020007);
  EXPECT_EQ(read(at::kTxq + 5 * 0x20 + 0x0c), 0x07000000u);
  EXPECT_EQ(read(at::kTxq + (3 * 64 + 5) * 0x20 + 0x0c), 0x07000000u);
  write(at::kCq + (128 + 1) * 0x10 + 0x0c, 0x80020003);
  EXPECT_EQ(read(at::kCq + 0x10 + 0x08), 0x30000000u);
  write(at::kEq + (16 + 2) * 0x10 + 0x0c, 0xc0000005);
  EXPECT_EQ(read(at::kEq + 2 * 0x10 + 0x08), 5u);
  EXPECT_EQ(bad(), 0u);
  write(at::kTxq + 48 * 0x20 + 0x10, 0x80020007);  // no queue has this number
  EXPECT_EQ(bad(), 1u);
  EXPECT_EQ(read(at::kTxq + 48 * 0x20 + 0x0c), 0u);
}

TEST_F(CardQueues, BlockSizeHasTwoBitsAndTheBuildsLimit) {
  CardConfig config;
  config.log2_block_max = 2;
  build(config);
  write(at::kTxq + 0x10, 0x8002ff00);
  EXPECT_EQ(read(at::kTxq + 0x0c), 0x20000000u);
  write(at::kTxq + 0x10, 0x80020104);
  EXPECT_EQ(read(at::kTxq + 0x0c), 0x14000000u);
}

TEST_F(CardQueues, PointersRunFreelyOverTheRing) {
  bring_up();
  write(at::kTxq + 0x10, 0x40000100);
  write(at::kTxq + 0x10, 0x8080fffe);
  write(at::kTxq + 0x10, 0x8090fffe);
  write(at::kTxq + 0x10, 0x40000101);
  write(at::kCq + 0x0c, 0x40000100);
  write(at::kCq + 0x0c, 0x8080fffe);
  write(at::kCq + 0x0c, 0x8090fffe);
  write(at::kCq + 0x0c, 0x40000101);
  for (unsigned i = 0; i < 4; ++i) put_tx(14 + i, plain_frame(60 + i));
  ring(at::kTxq, 0x10002);
  run();
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00020002u);
  ASSERT_EQ(wire().from_card.size(), 4u);
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(wire().from_card[i].size(), 60 + i);
    const size_t entry = kTxCq + (14 + i) % 16 * 32;
    EXPECT_EQ(u16(entry + 2), (0xfffe + i) & 0xffff);
    EXPECT_EQ(host[entry + 0x1f] & 0x80, i < 2 ? 0 : 0x80) << "lap 4095 is odd, lap 0 is not";
  }
}

TEST_F(CardQueues, RestartLosesNoDoorbell) {
  bring_up();
  for (unsigned lap = 0; lap < 3; ++lap) {
    for (unsigned i = 0; i < 3; ++i) put_tx(i, plain_frame(60));
    ring(at::kTxq, 3);
    EXPECT_EQ(run(), 3u);
    start_cq(at::kCq, kTxCq, 4);
    start_ring(at::kTxq, kTxRing, 4, 0, 0);
  }
  EXPECT_EQ(card->report().doorbells_lost, 0u);
}

TEST_F(CardQueues, TxCompletionIsWhole) {
  bring_up();
  now_ns = 70'000'000'005;
  start_ring(at::kTxq + 9 * 0x20, kTxRing, 4, 0, 0);
  write(at::kChannel + 9 * 4, 3);
  put_tx(0, plain_frame(77));
  ring(at::kTxq + 9 * 0x20, 1);
  run();
  EXPECT_EQ(host_bytes(kTxCq, 8), (Bytes{9, 0, 0, 0, 77, 0, 0, 0}));
  EXPECT_EQ(u32(kTxCq + 8), 5u);
  EXPECT_EQ(u16(kTxCq + 0x0c), 70u);
  EXPECT_EQ(host_bytes(kTxCq + 0x0e, 17), Bytes(17, 0));
  EXPECT_EQ(host[kTxCq + 0x1f], 0x80);
}

TEST_F(CardQueues, GatherOverABlock) {
  bring_up(3);
  const Bytes data = plain_frame(1000);
  put(kTxBuffers, data);
  const uint32_t lengths[] = {14, 0, 1, 100, 3, 0, 800, 82};
  uint32_t at = 0;
  for (unsigned i = 0; i < 8; ++i) {
    put_descriptor(kTxRing + i * 16, lengths[i], kHostAddress + kTxBuffers + at, i == 0 ? 0 : 0xffff);
    at += lengths[i];
  }
  ring(at::kTxq, 1);
  run();
  ASSERT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(wire().from_card[0], data) << "and the checksum command counts in the first descriptor only";
}

TEST_F(CardQueues, PacketBeyondTheLargestFrameIsCut) {
  bring_up(1);
  put(kTxBuffers, plain_frame(9000));
  put_descriptor(kTxRing, 9000, kHostAddress + kTxBuffers);
  put_descriptor(kTxRing + 16, 9000, kHostAddress + kTxBuffers);
  ring(at::kTxq, 1);
  run();
  ASSERT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(wire().from_card[0].size(), 9214u);
  EXPECT_EQ(u16(kTxCq + 4), 9214u);
}

TEST_F(CardQueues, FullCableKeepsThePacket) {
  bring_up();
  wire().room = 1;
  for (unsigned i = 0; i < 3; ++i) put_tx(i, plain_frame(60 + i));
  ring(at::kTxq, 3);
  EXPECT_EQ(run(), 3u) << "one has left, two are taken";
  EXPECT_EQ(run(), 0u);
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00030003u);
  EXPECT_EQ(read(at::kCq + 0x0c), 0x00000001u) << "one completion";
  wire().room = 3;
  EXPECT_EQ(run(), 2u);
  EXPECT_EQ(wire().from_card[2].size(), 62u);
}

TEST_F(CardQueues, BudgetLimitsARunAndQueuesTakeTurns) {
  bring_up();
  start_ring(at::kTxq + 0x20, kTxRing + 0x1000, 4, 0, 0);
  write(at::kChannel + 4, 3);
  for (unsigned i = 0; i < 3; ++i) {
    put_tx(i, plain_frame(100));
    put_descriptor(kTxRing + 0x1000 + i * 16, 60, kHostAddress + kTxBuffers);
  }
  ring(at::kTxq, 3);
  ring(at::kTxq + 0x20, 3);
  EXPECT_EQ(run(4), 4u);
  EXPECT_EQ(run(4), 2u);
  EXPECT_EQ(run(4), 0u);
  ASSERT_EQ(wire().from_card.size(), 6u);
  for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(wire().from_card[i].size(), i % 2 == 0 ? 100u : 60u);
  EXPECT_EQ(wire().flushes, 3u) << "once a run";
}

}  // namespace
}  // namespace mqnic::card::test
