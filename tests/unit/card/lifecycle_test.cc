// Doorbell words beside the registers, memory that is not mapped, reset, and surprise removal.
#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

class CardDoorbellWords : public Rig {
 protected:
  // 8192 words of each kind: TX, RX, completion, event.
  CardDoorbellWords() : words(4 * 8192) {
    card->set_doorbell_words(words.data());
    bring_up();
  }
  uint32_t& tx_word(unsigned queue = 0) { return words[queue]; }
  uint32_t& rx_word(unsigned queue = 0) { return words[8192 + queue]; }
  uint32_t& cq_word(unsigned queue) { return words[2 * 8192 + queue]; }
  uint32_t& eq_word(unsigned queue) { return words[3 * 8192 + queue]; }

  std::vector<uint32_t> words;
};

TEST_F(CardDoorbellWords, AreLookedAtInRun) {
  put_tx(0, plain_frame(60));
  tx_word() = 0x80800001;
  put_rx(0, 2048);
  rx_word() = 0x80800001;
  wire().to_card.push_back(plain_frame(61));
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(u16(kRxCq + 4), 61u);
  EXPECT_EQ(tx_word(), 0u) << "taken";
  cq_word(1) = 0x80900001;
  run();
  EXPECT_EQ(read(at::kCq + 0x10 + 0x0c), 0x00010001u);
}

TEST_F(CardDoorbellWords, AreLookedAtBeforeARegister) {
  tx_word() = 0x80800003;
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00000003u);
  cq_word(0) = 0x80900002;
  EXPECT_EQ(read(at::kCq + 0x0c), 0x00020000u);
}

TEST_F(CardDoorbellWords, TheSameValueTwiceIsTwoDoorbells) {
  put_tx(0, plain_frame(60));
  tx_word() = 0x80800001;
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
  // The queue is set up again, so its first doorbell has the value of the last one.
  start_ring(at::kTxq, kTxRing, 4, 0, 0);
  tx_word() = 0x80800001;
  run();
  EXPECT_EQ(wire().from_card.size(), 2u);
}

TEST_F(CardDoorbellWords, RungWhileDisabledIsLostToo) {
  write(at::kTxq + 0x10, 0x40000100);
  put_tx(0, plain_frame(60));
  tx_word() = 0x80800001;
  run();
  write(at::kTxq + 0x10, 0x40000101);
  run();
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_EQ(card->report().doorbells_lost, 1u);
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00000001u);
  tx_word() = 0x80800001;
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
}

TEST_F(CardDoorbellWords, TakePointersOnly) {
  const uint64_t before = card->report().bad_register_writes;
  tx_word() = 0x40000100;  // disable
  rx_word() = 0x80900001;
  cq_word(0) = 0x80800001;
  run();
  EXPECT_EQ(card->report().bad_register_writes, before + 3);
  EXPECT_EQ(read(at::kTxq + 8), 1u);
}

TEST_F(CardDoorbellWords, CanArm) {
  start_cq(at::kEq, 0x20000, 3, 7);
  put_rx(0, 2048);
  rx_word() = 0x80800001;
  cq_word(1) = 0x80910000;
  eq_word(0) = 0x80910000;
  run();
  wire().to_card.push_back(plain_frame(60));
  run();
  EXPECT_EQ(interrupts, (std::vector<unsigned>{7}));
}

TEST_F(CardDoorbellWords, AreForgottenByAReset) {
  tx_word(3) = 0x80800007;
  eq_word(2) = 0x80900001;
  card->reset();
  EXPECT_EQ(words, std::vector<uint32_t>(words.size(), 0));
  EXPECT_EQ(read(at::kTxq + 3 * 0x20 + 0x10), 0u);
}

TEST_F(CardDoorbellWords, OfASecondInterfaceFollow) {
  CardConfig config;
  config.interfaces = 2;
  build(config);
  words.assign(2 * 4 * 8192, 0);
  card->set_doorbell_words(words.data());
  const uint32_t txq = 0x800000 + 0x200000;
  start_ring(txq, kTxRing, 4, 0, 0);
  words[4 * 8192] = 0x80800005;
  EXPECT_EQ(read(txq + 0x10), 0x00000005u);
}

using CardMemory = Rig;

TEST_F(CardMemory, PacketOverTwoMappings) {
  bring_up();
  Bytes second(0x1000, 0x5a);
  ASSERT_TRUE(memory.map(kHostAddress + kHostBytes, second.size(), second.data()));
  const Bytes frame = plain_frame(200);
  std::memcpy(bytes(kHostBytes - 100), frame.data(), 100);
  std::memcpy(second.data(), frame.data() + 100, 100);
  put_descriptor(kTxRing, 200, kHostAddress + kHostBytes - 100);
  ring(at::kTxq, 1);
  run();
  ASSERT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(wire().from_card[0], frame);

  put_descriptor(kRxRing, 4096, kHostAddress + kHostBytes - 60);
  ring(at::kRxq, 1);
  wire().to_card.push_back(plain_frame(100, 3));
  run();
  const Bytes wanted = plain_frame(100, 3);
  EXPECT_EQ(host_bytes(kHostBytes - 60, 60), Bytes(wanted.begin(), wanted.begin() + 60));
  EXPECT_EQ(Bytes(second.begin(), second.begin() + 40), Bytes(wanted.begin() + 60, wanted.end()));
  EXPECT_EQ(card->report().dma_faults, 0u);
}

TEST_F(CardMemory, UnmappedPacketGoesOutAsZeros) {
  bring_up();
  put_descriptor(kTxRing, 60, 0x1234);
  put_descriptor(kTxRing + 16, 60, UINT64_MAX - 10);  // wraps around
  ring(at::kTxq, 2);
  run();
  ASSERT_EQ(wire().from_card.size(), 2u);
  EXPECT_EQ(wire().from_card[0], Bytes(60, 0));
  EXPECT_EQ(wire().from_card[1], Bytes(60, 0));
  EXPECT_EQ(card->report().dma_faults, 2u);
}

TEST_F(CardMemory, UnmappedReceiveBufferLosesTheData) {
  bring_up();
  put_descriptor(kRxRing, 2048, 0x1234);
  ring(at::kRxq, 1);
  wire().to_card.push_back(plain_frame(60));
  run();
  EXPECT_EQ(u16(kRxCq + 4), 60u) << "the completion comes all the same";
  EXPECT_EQ(card->report().dma_faults, 1u);
}

TEST_F(CardMemory, UnmappedRingsAreSkippedAndSaid) {
  bring_up();
  write(at::kTxq + 0x10, 0x40000100);
  write(at::kTxq + 4, 0x1);
  write(at::kTxq + 0x10, 0x40000101);
  ring(at::kTxq, 1);
  EXPECT_EQ(run(), 1u);
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_EQ(card->take_messages().size(), 1u);
  EXPECT_EQ(card->report().tx_wedged, 0u);
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00010001u);
}

TEST_F(CardMemory, UnmappedCompletionQueueLosesEntries) {
  bring_up();
  memory.unmap(kHostAddress, kHostBytes);  // rings and buffers are mapped again, the CQs are not
  ASSERT_TRUE(memory.map(kHostAddress, 0x10000, host.data()));
  ASSERT_TRUE(memory.map(kHostAddress + 0x100000, 0x100000, host.data() + 0x100000));
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(card->report().dma_faults, 1u);
  EXPECT_EQ(read(at::kCq + 0x0c), 0x00000001u);
  EXPECT_EQ(host_bytes(kTxCq, 32), Bytes(32, 0));
}

TEST_F(CardMemory, MessagesHaveALimit) {
  bring_up();
  write(at::kTxq + 0x10, 0x40000100);
  write(at::kTxq + 4, 0x1);
  write(at::kTxq + 0x10, 0x40000101);
  ring(at::kTxq, 0xffff);
  EXPECT_EQ(run(1'000'000), 0xffffu) << "bounded by the ring's pointer";
  EXPECT_LE(card->take_messages().size(), 64u);
}

TEST_F(CardMemory, MapRefusesWhatOverlapsOrWraps) {
  Bytes data(0x1000);
  EXPECT_FALSE(memory.map(kHostAddress, 0, data.data()));
  EXPECT_FALSE(memory.map(kHostAddress + kHostBytes - 1, 0x1000, data.data()));
  EXPECT_FALSE(memory.map(kHostAddress - 0xfff, 0x1000, data.data()));
  EXPECT_FALSE(memory.map(UINT64_MAX - 10, 0x1000, data.data()));
  EXPECT_TRUE(memory.map(kHostAddress - 0x1000, 0x1000, data.data()));
  EXPECT_EQ(memory.unmap(kHostAddress - 0x1000, 0x800), nullptr) << "an exact range";
  EXPECT_EQ(memory.at(kHostAddress - 1, 1), data.data() + 0xfff);
  EXPECT_EQ(memory.at(kHostAddress - 1, 2), nullptr) << "not in one piece";
  EXPECT_EQ(memory.unmap(kHostAddress - 0x1000, 0x1000), data.data());
  EXPECT_EQ(memory.at(kHostAddress - 1, 1), nullptr);
}

using CardLife = Rig;

// "`rst` of the core clears neither queue registers nor enables." Everything else is as after construction.
TEST_F(CardLife, ResetLeavesTheRegistersOfQueuesAlone) {
  Rig::build({});
  std::vector<uint32_t> fresh, after;
  const auto snapshot = [this](std::vector<uint32_t>& values) {
    for (uint32_t at = 0; at < 0x1000000; at += at % 0x80000 < 0x4000 ? 4 : 0x4000) {
      if (at < at::kEq || at >= at::kChannel) values.push_back(read(at));
    }
  };
  snapshot(fresh);
  bring_up();
  write(0x4c, 77);
  write(0x1000c, 0);
  write(at::kTxMtu, 1500);
  write(at::kRxMtu, 1500);
  write(at::kRssMask, 0x3f);
  write(at::kTable, 3);
  write(at::kLfc, 0x03000001);
  write(at::kQuantaStep, 0x00010001);
  write(at::kPfc, 0x03000000);
  write(at::kSchedulerDestination, 0x10);
  write(at::kRxControl, 0x101);
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  wire().to_card.push_back(plain_frame(60));
  run();
  card->reset();
  snapshot(after);
  ASSERT_EQ(after.size(), fresh.size());
  for (size_t i = 0; i < fresh.size(); ++i) ASSERT_EQ(after[i], fresh[i]) << i;
  EXPECT_EQ(read(at::kTxq), static_cast<uint32_t>(kHostAddress + kTxRing));
  EXPECT_EQ(read(at::kTxq + 0x08), 1u) << "enabled";
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00010001u);
  EXPECT_EQ(read(at::kCq + 0x08), 0x40010000u) << "enabled, 2^4 entries";
  EXPECT_FALSE(wire().receiving);
  wire().from_card.clear();
  run();
  EXPECT_TRUE(wire().from_card.empty());

  bring_up();
  put_rx(0, 2048);
  ring(at::kRxq, 1);
  run();
  EXPECT_EQ(read(at::kRxq + 0x10), 1u) << "what the FIFO held is gone";
}

TEST_F(CardLife, RemovedCardReadsAllOnesAndStandsStill) {
  bring_up();
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  wire().to_card.push_back(plain_frame(60));
  card->remove();
  EXPECT_EQ(run(), 0u);
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_EQ(wire().to_card.size(), 1u);
  for (const uint32_t offset : {0x0u, 0x4u, 0x80000u, at::kTxq, at::kChannel, 0x10000u}) {
    EXPECT_EQ(read(offset), 0xffffffffu);
    write(offset, 0);
  }
  card->reset();
  EXPECT_EQ(read(0x4), 0xffffffffu) << "a reset does not bring it back";
}

TEST_F(CardLife, NothingPluggedIn) {
  CardConfig config;
  card = std::make_unique<Card>(config, memory, std::span<Wire* const>{});
  bring_up();
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(u16(kTxCq + 4), 60u) << "sent into nothing";
  EXPECT_EQ(read(at::kTxControl), 1u) << "no link";
}

}  // namespace
}  // namespace mqnic::card::test
