// Transmitting as it was observed on the real RTL: one test for each observation, which is quoted in its comment.
// Registers and bytes are written out.
#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

using ObservedTx = Rig;

// "drivers and the RTL use +0x10 for TXQ/RXQ and +0x0C for CQ/EQ" (command words)
TEST_F(ObservedTx, CommandsAreTakenAt10OfRingsAnd0cOfCompletionQueues) {
  write(at::kTxq + 0x10, 0x80020006);
  EXPECT_EQ(read(at::kTxq + 0x0c), 0x06000000u);
  write(at::kRxq + 0x10, 0x80020107);
  EXPECT_EQ(read(at::kRxq + 0x0c), 0x17000000u);
  write(at::kCq + 0x0c, 0x80020008);
  EXPECT_EQ(read(at::kCq + 0x08), 0x80000000u);
  write(at::kEq + 0x0c, 0x80020009);
  EXPECT_EQ(read(at::kEq + 0x08), 0x90000000u);
  EXPECT_EQ(card->report().bad_register_writes, 0u);
}

// "Probe the largest block by writing 8002_ff00 to TXQ0 and reading 0C[31:28] (3, i.e. 8 descriptors, was seen)"
TEST_F(ObservedTx, ProbeOfTheLargestBlockGivesThree) {
  write(at::kTxq + 0x10, 0x8002ff00);
  EXPECT_EQ(read(at::kTxq + 0x0c) >> 28, 3u);
}

// "CQ full: the completion is silently lost and the descriptor still consumed."
TEST_F(ObservedTx, CqFullLosesTheCompletionAndConsumesTheDescriptor) {
  bring_up();
  write(at::kCq + 0x0c, 0x40000100);
  write(at::kCq + 0x0c, 0x80020001);  // two entries
  write(at::kCq + 0x0c, 0x40000101);
  for (unsigned i = 0; i < 4; ++i) put_tx(i, plain_frame(60, static_cast<uint8_t>(i)));
  ring(at::kTxq, 4);
  run();
  EXPECT_EQ(wire().from_card.size(), 4u);
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00040004u);  // all consumed
  EXPECT_EQ(read(at::kCq + 0x0c), 0x00000002u);   // two written
  EXPECT_EQ(u16(kTxCq + 2), 0u);
  EXPECT_EQ(u16(kTxCq + 32 + 2), 1u);
  EXPECT_EQ(card->report().completions_lost_cq_full, 2u);

  // When there is room again, the lost completions do not appear, and the next one does, in its second lap.
  write(at::kCq + 0x0c, 0x80900002);
  put_tx(4, plain_frame(60));
  ring(at::kTxq, 5);
  run();
  EXPECT_EQ(u16(kTxCq + 2), 4u);
  EXPECT_EQ(host[kTxCq + 0x1f] & 0x80, 0);
  EXPECT_EQ(host[kTxCq + 32 + 0x1f] & 0x80, 0x80);
}

// "A zero-length TX packet wedges the TX engine for good; re-initialising queue, port and scheduler does not help."
TEST_F(ObservedTx, ZeroLengthPacketWedgesTheTxEngineForGood) {
  CardConfig config;
  config.interfaces = 2;
  build(config);
  // Interface 0 of two: half the space, so every offset is half of the default's.
  const uint32_t cq = 0x100000, txq = 0x200000, port = 0x41020, scheduler = 0x42028, channel = 0x400000;
  const auto start = [&](uint32_t base) {
    start_cq(base + cq, kTxCq, 4);
    start_ring(base + txq, kTxRing, 4, 0, 0);
    write(base + port, 0);
    write(base + port, 1);
    write(base + scheduler, 0);
    write(base + scheduler, 1);
    write(base + channel, 3);
  };
  start(0);
  put_descriptor(kTxRing, 0, kHostAddress + kTxBuffers);
  put_tx(1, plain_frame(60));
  ring(txq, 2);
  run();
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_EQ(read(cq + 0x0c) & 0xffff, 0u);
  EXPECT_EQ(card->report().tx_wedged, 1u);
  const auto messages = card->take_messages();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("length zero"), std::string::npos);
  EXPECT_NE(messages[0].find("stuck"), std::string::npos);

  start(0);
  put_tx(0, plain_frame(60));
  ring(txq, 1);
  run();
  EXPECT_TRUE(wire().from_card.empty()) << "nothing but a reset helps";

  start(0x800000);  // the other interface has an engine of its own
  ring(0x800000 + txq, 1);
  run();
  EXPECT_EQ(wire(1).from_card.size(), 1u);

  card->reset();
  start(0);
  ring(txq, 1);
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
}

// From the same observation: a block of several descriptors has length zero when all of them have.
TEST_F(ObservedTx, ZeroLengthPacketIsAboutTheWholeBlock) {
  bring_up(1);
  put_descriptor(kTxRing, 0, 0);
  put(kTxBuffers, plain_frame(60));
  put_descriptor(kTxRing + 16, 60, kHostAddress + kTxBuffers);
  put_descriptor(kTxRing + 32, 0, 0);
  put_descriptor(kTxRing + 48, 0, 0);
  ring(at::kTxq, 2);
  run();
  ASSERT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(wire().from_card[0], plain_frame(60));
  EXPECT_EQ(card->report().tx_wedged, 1u);
}

// "Runts are not padded by the core."
TEST_F(ObservedTx, RuntsAreNotPadded) {
  bring_up();
  put_tx(0, plain_frame(1));
  put_tx(1, plain_frame(33));
  ring(at::kTxq, 2);
  run();
  ASSERT_EQ(wire().from_card.size(), 2u);
  EXPECT_EQ(wire().from_card[0].size(), 1u);
  EXPECT_EQ(wire().from_card[1], plain_frame(33));
  EXPECT_EQ(u16(kTxCq + 4), 1u);
  EXPECT_EQ(u16(kTxCq + 32 + 4), 33u);
}

// "All `size` entries can be posted" - on TX too, where Linux stops at half.
TEST_F(ObservedTx, AllEntriesCanBePosted) {
  bring_up();
  for (unsigned i = 0; i < 16; ++i) put_tx(i, plain_frame(60 + i, static_cast<uint8_t>(i)));
  ring(at::kTxq, 16);
  run();
  ASSERT_EQ(wire().from_card.size(), 16u);
  for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(wire().from_card[i], plain_frame(60 + i, static_cast<uint8_t>(i)));
}

// "A doorbell while the queue is disabled is lost: ring it again after enable."
TEST_F(ObservedTx, DoorbellWhileTheQueueIsDisabledIsLost) {
  bring_up();
  write(at::kTxq + 0x10, 0x40000100);
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  write(at::kTxq + 0x10, 0x40000101);
  EXPECT_EQ(card->report().doorbells_lost, 1u);
  run();
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_EQ(read(at::kTxq + 0x10), 0x00000001u) << "the pointer itself is taken";
  ring(at::kTxq, 1);
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
}

// "With scheduler or channel off it is remembered."
TEST_F(ObservedTx, DoorbellWhileTheSchedulerIsOffIsRemembered) {
  bring_up();
  write(at::kSchedulerControl, 0);
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  run();
  EXPECT_TRUE(wire().from_card.empty());
  write(at::kSchedulerControl, 1);
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
}

TEST_F(ObservedTx, DoorbellWhileTheChannelIsOffIsRemembered) {
  bring_up();
  write(at::kChannel, 0);
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  run();
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_EQ(read(at::kChannel), 0x00010000u);  // active, not scheduled
  write(at::kChannel, 6);                      // the bits of TDMA, which are not stored
  EXPECT_EQ(read(at::kChannel), 0x00010000u);
  run();
  EXPECT_TRUE(wire().from_card.empty());
  write(at::kChannel, 1);
  EXPECT_EQ(read(at::kChannel), 0x01010001u);
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(read(at::kChannel), 0x00000001u) << "idle again";
  write(at::kChannel, 3);
  EXPECT_EQ(read(at::kChannel), 0x00000001u);
}

// From the same observation: a channel that is switched off while it waits for its turn keeps its doorbell.
TEST_F(ObservedTx, ChannelSwitchedOffWhileItWaits) {
  bring_up();
  for (unsigned i = 0; i < 2; ++i) put_tx(i, plain_frame(60));
  ring(at::kTxq, 2);
  EXPECT_EQ(run(1), 1u);
  write(at::kChannel, 2);
  EXPECT_EQ(read(at::kChannel), 0x01010000u) << "still in the line";
  EXPECT_EQ(run(), 0u);
  EXPECT_EQ(read(at::kChannel), 0x00010000u);
  write(at::kChannel, 3);
  EXPECT_EQ(run(), 1u);
}

// "Port TX off: packets are held and sent later."
TEST_F(ObservedTx, PortTxOffHoldsPackets) {
  bring_up();
  write(at::kTxControl, 0);
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  run();
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_EQ(host[kTxCq + 0x1f], 0);
  write(at::kTxControl, 1);
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(host[kTxCq + 0x1f] & 0x80, 0x80);
}

/// An IPv4/UDP frame whose UDP checksum field holds the sum of the pseudo-header, as the driver has to leave it.
Bytes udp_frame_seeded(const std::vector<uint8_t>& payload) {
  Bytes frame = {2, 0,  0,  0, 0, 2,  2, 0, 0, 0,  0, 1, 0x08, 0x00, 0x45, 0,    0,    0, 0, 1, 0x40,
                 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,    0xc0, 0x00, 0x12, 0xb7, 0, 0, 0, 0};
  const auto udp = static_cast<uint32_t>(8 + payload.size());
  frame[17] = static_cast<uint8_t>(20 + udp);
  frame[38] = static_cast<uint8_t>(udp >> 8);
  frame[39] = static_cast<uint8_t>(udp);
  uint32_t seed = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + udp;
  seed = (seed & 0xffff) + (seed >> 16);
  frame[40] = static_cast<uint8_t>(seed >> 8);
  frame[41] = static_cast<uint8_t>(seed);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

/// The sum of 16-bit words, computed one word at a time.
uint32_t word_sum(const Bytes& frame, size_t from) {
  uint32_t sum = 0;
  for (size_t i = from; i < frame.size(); i += 2) {
    sum += static_cast<uint32_t>(frame[i] << 8) + (i + 1 < frame.size() ? frame[i + 1] : 0u);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

// "TX checksum: one sum from start to the end of the packet, seeded with the pseudo-header by the driver. No IPv4
// header checksum."
TEST_F(ObservedTx, ChecksumFromStartToEndSeededByTheDriver) {
  bring_up();
  unsigned slot = 0;
  for (const size_t payload : {1u, 18u, 255u}) {
    const Bytes frame = udp_frame_seeded(pattern(payload));
    put_tx(slot, frame, 0x8000 | 6 << 8 | 34);  // start at the UDP header, store 6 bytes behind it
    ring(at::kTxq, slot + 1);
    run();
    ASSERT_EQ(wire().from_card.size(), slot + 1);
    const Bytes& sent = wire().from_card[slot];
    ASSERT_EQ(sent.size(), frame.size());
    Bytes rest = sent;
    rest[40] = frame[40];
    rest[41] = frame[41];
    EXPECT_EQ(rest, frame) << "nothing else is changed";
    EXPECT_EQ(sent[24], 0) << "no IPv4 header checksum";
    // A receiver's check: UDP with the pseudo-header sums to all-ones.
    const uint32_t pseudo = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + static_cast<uint32_t>(8 + payload);
    uint32_t sum = word_sum(sent, 34) + pseudo;
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    EXPECT_EQ(sum, 0xffffu) << payload;
    ++slot;
  }
}

// From the same observation: without bit 15 nothing is stored, and a place outside the packet is not written.
TEST_F(ObservedTx, ChecksumOnlyWhenAskedAndInsideThePacket) {
  bring_up();
  put_tx(0, plain_frame(60), 6 << 8 | 34);
  put_tx(1, plain_frame(60), 0x8000 | 100 << 8 | 34);
  put_tx(2, plain_frame(60), 0x8000 | 25 << 8 | 34);  // bytes 59 and 60: only the first exists
  ring(at::kTxq, 3);
  run();
  ASSERT_EQ(wire().from_card.size(), 3u);
  EXPECT_EQ(wire().from_card[0], plain_frame(60));
  EXPECT_EQ(wire().from_card[1], plain_frame(60));
  EXPECT_NE(wire().from_card[2][59], plain_frame(60)[59]);
}

}  // namespace
}  // namespace mqnic::card::test
