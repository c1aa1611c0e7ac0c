// Receiving as it was observed on the real RTL: one test for each observation, which is quoted in its comment.
#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

using ObservedRx = Rig;

/// The plain sum of big-endian words, with its carries added at the very end.
uint16_t independent_sum(const Bytes& frame, size_t from) {
  uint64_t upper = 0, lower = 0;
  for (size_t i = from; i < frame.size(); ++i) ((i - from) % 2 == 0 ? upper : lower) += frame[i];
  uint64_t sum = upper * 256 + lower;
  while (sum > 0xffff) sum = sum % 0x10000 + sum / 0x10000;
  return static_cast<uint16_t>(sum);
}

/// IPv4 from 66.9.149.187 to 161.142.100.80, ports 2794 and 1766: the first row of Microsoft's verification suite.
Bytes ipv4_frame(uint8_t protocol, uint8_t fragment_high = 0) {
  Bytes frame = {
      2, 0,  0,        0, 0, 2,  2, 0,   0,   0,   0,   1,   0x08, 0x00, 0x45, 0,    0,   40, 0, 1, fragment_high,
      0, 64, protocol, 0, 0, 66, 9, 149, 187, 161, 142, 100, 80,   0x0a, 0xea, 0x06, 0xe6};
  frame.resize(60);
  return frame;
}

// "RX ring empty: silent drop, no counter."
TEST_F(ObservedRx, RingEmptyDropsSilently) {
  bring_up();
  put_rx(0, 2048);
  ring(at::kRxq, 1);
  const Bytes before_stats = [&] {
    Bytes values;
    for (uint32_t id = 64; id < 4096; ++id) values.push_back(static_cast<uint8_t>(read(0x20000 + id * 8)));
    return values;
  }();
  for (unsigned i = 0; i < 3; ++i) wire().to_card.push_back(plain_frame(60, static_cast<uint8_t>(i)));
  run();
  EXPECT_TRUE(wire().to_card.empty());
  EXPECT_EQ(read(at::kRxq + 0x10), 0x00010001u);
  EXPECT_EQ(read(at::kCq + 0x10 + 0x0c) & 0xffff, 1u);
  EXPECT_EQ(card->report().rx_dropped_no_descriptor, 2u);
  for (uint32_t id = 64; id < 4096; ++id) {
    ASSERT_EQ(static_cast<uint8_t>(read(0x20000 + id * 8)), before_stats[id - 64]) << "no counter in the card";
  }
  // The next frame that finds a descriptor is received: nothing is left of the dropped ones.
  put_rx(1, 2048);
  ring(at::kRxq, 2);
  wire().to_card.push_back(plain_frame(61, 9));
  run();
  EXPECT_EQ(u16(kRxCq + 32 + 4), 61u);
  EXPECT_EQ(host_bytes(rx_buffer(1), 61), plain_frame(61, 9));
}

// "CQ full: the completion is silently lost and the descriptor still consumed." On RX the frame is in the host's
// buffer, and the host is not told.
TEST_F(ObservedRx, CqFullLosesTheCompletionAndConsumesTheDescriptor) {
  bring_up();
  write(at::kCq + 0x10 + 0x0c, 0x40000100);
  write(at::kCq + 0x10 + 0x0c, 0x80020000);  // one entry
  write(at::kCq + 0x10 + 0x0c, 0x40000101);
  for (unsigned i = 0; i < 2; ++i) put_rx(i, 2048);
  ring(at::kRxq, 2);
  wire().to_card.push_back(plain_frame(60, 1));
  wire().to_card.push_back(plain_frame(60, 2));
  run();
  EXPECT_EQ(read(at::kRxq + 0x10), 0x00020002u);
  EXPECT_EQ(read(at::kCq + 0x10 + 0x0c), 0x00000001u);
  EXPECT_EQ(u16(kRxCq + 2), 0u);
  EXPECT_EQ(host_bytes(rx_buffer(1), 60), plain_frame(60, 2));
  EXPECT_EQ(card->report().completions_lost_cq_full, 1u);
}

// "RX buffer too small: data is clamped but `len` reports the whole length."
TEST_F(ObservedRx, BufferTooSmallClampsDataAndReportsTheWholeLength) {
  bring_up();
  put_rx(0, 100);
  ring(at::kRxq, 1);
  wire().to_card.push_back(plain_frame(300));
  run();
  EXPECT_EQ(u16(kRxCq + 4), 300u);
  const Bytes frame = plain_frame(300);
  EXPECT_EQ(host_bytes(rx_buffer(0), 100), Bytes(frame.begin(), frame.begin() + 100));
  EXPECT_EQ(host_bytes(rx_buffer(0) + 100, 200), Bytes(200, 0)) << "nothing behind the buffer is touched";
  EXPECT_EQ(card->report().rx_clamped_buffer, 1u);
}

// "Frame larger than the RX MTU: truncated, len = MTU, no error flag."
TEST_F(ObservedRx, FrameLargerThanTheMtuIsTruncatedWithoutAnErrorFlag) {
  bring_up();
  write(at::kRxMtu, 1514);
  EXPECT_EQ(read(at::kRxMtu), 1514u);
  put_rx(0, 4096);
  put_rx(1, 4096);
  ring(at::kRxq, 2);
  wire().to_card.push_back(plain_frame(1514, 1));
  wire().to_card.push_back(plain_frame(2000, 2));
  run();
  EXPECT_EQ(u16(kRxCq + 4), 1514u);
  const size_t second = kRxCq + 32;
  EXPECT_EQ(u16(second + 4), 1514u);
  const Bytes frame = plain_frame(2000, 2);
  EXPECT_EQ(host_bytes(rx_buffer(1), 1514), Bytes(frame.begin(), frame.begin() + 1514));
  EXPECT_EQ(host_bytes(rx_buffer(1) + 1514, 486), Bytes(486, 0));
  EXPECT_EQ(host_bytes(second + 6, 2), Bytes(2, 0)) << "no error flag anywhere: reserved fields";
  EXPECT_EQ(host_bytes(second + 0x16, 9), Bytes(9, 0));
  EXPECT_EQ(host[second + 0x1f], 0x80) << "the phase and nothing else";
  EXPECT_EQ(card->report().rx_truncated_mtu, 1u);
}

// "RX scatter over the descriptors of a block works."
TEST_F(ObservedRx, ScatterOverTheDescriptorsOfABlock) {
  bring_up(2);  // four descriptors for a packet
  const size_t buffers[] = {kRxBuffers, kRxBuffers + 0x1000, kRxBuffers + 0x2000, kRxBuffers + 0x3000};
  const uint32_t lengths[] = {100, 0, 50, 1000};
  for (unsigned i = 0; i < 4; ++i) put_descriptor(kRxRing + i * 16, lengths[i], kHostAddress + buffers[i]);
  ring(at::kRxq, 1);
  const Bytes frame = plain_frame(400);
  wire().to_card.push_back(frame);
  run();
  EXPECT_EQ(u16(kRxCq + 4), 400u);
  EXPECT_EQ(host_bytes(buffers[0], 100), Bytes(frame.begin(), frame.begin() + 100));
  EXPECT_EQ(host_bytes(buffers[0] + 100, 1), Bytes(1, 0));
  EXPECT_EQ(host_bytes(buffers[1], 1), Bytes(1, 0));
  EXPECT_EQ(host_bytes(buffers[2], 50), Bytes(frame.begin() + 100, frame.begin() + 150));
  EXPECT_EQ(host_bytes(buffers[3], 250), Bytes(frame.begin() + 150, frame.end()));
  EXPECT_EQ(card->report().rx_clamped_buffer, 0u);
  EXPECT_EQ(read(at::kRxq + 0x10), 0x00010001u) << "one block, not four descriptors";
}

// "All `size` entries can be posted."
TEST_F(ObservedRx, AllEntriesCanBePosted) {
  bring_up();
  for (unsigned i = 0; i < 16; ++i) put_rx(i, 2048);
  ring(at::kRxq, 16);
  for (unsigned i = 0; i < 17; ++i) wire().to_card.push_back(plain_frame(60 + i));
  run();
  for (unsigned i = 0; i < 16; ++i) {
    EXPECT_EQ(u16(kRxCq + i * 32 + 2), i);
    EXPECT_EQ(u16(kRxCq + i * 32 + 4), 60 + i);
    EXPECT_EQ(host[kRxCq + i * 32 + 0x1f], 0x80);
  }
  EXPECT_EQ(card->report().rx_dropped_no_descriptor, 1u);
}

// "Port RX off: most frames are lost." The port keeps what it had, and gives it out when it is on again.
TEST_F(ObservedRx, PortRxOffLosesFrames) {
  bring_up();
  for (unsigned i = 0; i < 4; ++i) put_rx(i, 2048);
  ring(at::kRxq, 4);
  write(at::kRxControl, 0x101);  // on, but the FIFO's output held
  wire().to_card.push_back(plain_frame(61));
  run();
  write(at::kRxControl, 0);
  wire().to_card.push_back(plain_frame(600));
  run();
  EXPECT_EQ(read(at::kCq + 0x10 + 0x0c), 0u);
  EXPECT_EQ(card->report().rx_dropped_port_off, 1u);
  write(at::kRxControl, 1);
  wire().to_card.push_back(plain_frame(63));
  run();
  EXPECT_EQ(read(at::kCq + 0x10 + 0x0c), 2u);
  EXPECT_EQ(u16(kRxCq + 4), 61u);
  EXPECT_EQ(u16(kRxCq + 32 + 4), 63u);
}

// "Port's RX off, then on: up to 8 small frames that came in between are still delivered."
TEST_F(ObservedRx, PortRxOffKeepsAFewSmallFrames) {
  bring_up();
  for (unsigned i = 0; i < 16; ++i) put_rx(i, 2048);
  ring(at::kRxq, 16);
  for (unsigned round = 0; round < 2; ++round) {
    write(at::kRxControl, 0);
    for (unsigned i = 0; i < 10; ++i) wire().to_card.push_back(plain_frame(round == 0 ? 60 + i % 5 : 65 + i));
    run();
    EXPECT_EQ(card->report().rx_dropped_port_off, round == 0 ? 2u : 8u) << "those of 65 bytes count as two";
    write(at::kRxControl, 1);
    run();
  }
  EXPECT_EQ(read(at::kCq + 0x10 + 0x0c), 12u);
  EXPECT_EQ(u16(kRxCq + 7 * 32 + 4), 62u);
  EXPECT_EQ(u16(kRxCq + 8 * 32 + 4), 65u);
}

// "RSS: Toeplitz with the fixed standard key 6d5a56da...; IPv4, with ports for TCP and UDP even when MF is set.
// hash_type b0 IPv4, b2 TCP, b3 UDP (RoCEv2 over IPv4 = 09). IPv6 and VLAN frames hash to 0."
TEST_F(ObservedRx, HashAndItsType) {
  bring_up();
  struct Case {
    const char* what;
    Bytes frame;
    uint32_t hash;
    uint8_t type;
  };
  Bytes vlan = ipv4_frame(17);
  const uint8_t tag[] = {0x81, 0x00, 0x00, 0x05};
  vlan.insert(vlan.begin() + 12, tag, tag + 4);
  Bytes ipv6 = ipv4_frame(17);
  ipv6[12] = 0x86;
  ipv6[13] = 0xdd;
  Bytes options = ipv4_frame(6);
  options[14] = 0x46;
  const std::vector<Case> cases = {
      {"TCP", ipv4_frame(6), 0x51ccc178, 0x05},
      {"UDP", ipv4_frame(17), 0x51ccc178, 0x09},
      {"UDP, more fragments", ipv4_frame(17, 0x20), 0x51ccc178, 0x09},
      {"ICMP", ipv4_frame(1), 0x323e8fc2, 0x01},
      {"TCP behind IP options", options, 0x323e8fc2, 0x01},
      {"VLAN", vlan, 0, 0},
      {"IPv6", ipv6, 0, 0},
      {"something else", plain_frame(60), 0, 0},
  };
  for (unsigned i = 0; i < cases.size(); ++i) {
    put_rx(i, 2048);
    wire().to_card.push_back(cases[i].frame);
  }
  ring(at::kRxq, static_cast<uint32_t>(cases.size()));
  run();
  for (unsigned i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(u32(kRxCq + i * 32 + 0x10), cases[i].hash) << cases[i].what;
    EXPECT_EQ(host[kRxCq + i * 32 + 0x14], cases[i].type) << cases[i].what;
  }
}

// From the same observation and the RX queue map: the table's entry for the masked hash selects the queue.
TEST_F(ObservedRx, HashChoosesTheQueueByTheTable) {
  bring_up();
  const uint32_t queue5 = at::kRxq + 5 * 0x20;
  start_ring(queue5, kRxRing + 0x1000, 4, 0, 1);
  put_descriptor(kRxRing + 0x1000, 2048, kHostAddress + rx_buffer(3));
  ring(queue5, 1);
  put_rx(0, 2048);
  ring(at::kRxq, 1);
  write(at::kRssMask, 0x3f);
  write(at::kTable + 4 * (0x51ccc178 & 0x3f), 5);
  wire().to_card.push_back(ipv4_frame(17));
  wire().to_card.push_back(plain_frame(70));  // hash 0: entry 0, queue 0
  run();
  EXPECT_EQ(u16(kRxCq + 0), 5u);
  EXPECT_EQ(u16(kRxCq + 4), 60u);
  EXPECT_EQ(u16(kRxCq + 32 + 0), 0u);
  EXPECT_EQ(u16(kRxCq + 32 + 4), 70u);

  // Mask 0 again: everything to entry 0. A queue that is off drops.
  write(at::kRssMask, 0);
  write(at::kTable, 9);
  wire().to_card.push_back(ipv4_frame(17));
  run();
  EXPECT_EQ(card->report().rx_dropped_no_queue, 1u);
}

// "rx_csum is the un-inverted ones-complement sum from byte 14 to the end."
TEST_F(ObservedRx, ChecksumFromByte14ToTheEndNotInverted) {
  bring_up();
  const size_t sizes[] = {14, 15, 16, 60, 61, 1514, 9001, 9214};
  unsigned slot = 0;
  for (const size_t size : sizes) {
    put_rx(slot, 9300);
    ring(at::kRxq, slot + 1);
    Bytes frame = plain_frame(size, static_cast<uint8_t>(size));
    if (size == 61) std::fill(frame.begin() + 14, frame.end(), uint8_t{0xff});  // all-ones stays all-ones
    wire().to_card.push_back(frame);
    run();
    EXPECT_EQ(u16(kRxCq + slot * 32 + 0x0e), independent_sum(frame, 14)) << size;
    ++slot;
  }
  // By hand: 1234 + f000 = 10234, folded 0235, + 5600 (the odd byte is a word's upper half) = 5835.
  Bytes small(14, 0);
  small.insert(small.end(), {0x12, 0x34, 0xf0, 0x00, 0x56});
  put_rx(slot, 9300);
  ring(at::kRxq, slot + 1);
  wire().to_card.push_back(small);
  run();
  EXPECT_EQ(u16(kRxCq + slot * 32 + 0x0e), 0x5835u);
}

// "Completions are in order per direction", and what else a completion has.
TEST_F(ObservedRx, CompletionsAreInOrderAndWhole) {
  bring_up();
  now_ns = 3'000'000'123;
  for (unsigned lap = 0; lap < 3; ++lap) {
    for (unsigned i = 0; i < 16; ++i) {
      put_rx(i, 2048);
      wire().to_card.push_back(plain_frame(60 + i));
    }
    ring(at::kRxq, (lap + 1) * 16);
    run();
    for (unsigned i = 0; i < 16; ++i) {
      const size_t entry = kRxCq + i * 32;
      EXPECT_EQ(u16(entry + 0), 0u);
      EXPECT_EQ(u16(entry + 2), lap * 16 + i);
      EXPECT_EQ(u16(entry + 4), 60 + i);
      EXPECT_EQ(u32(entry + 8), 123u);
      EXPECT_EQ(u16(entry + 0x0c), 3u);
      EXPECT_EQ(host[entry + 0x15], 0);
      EXPECT_EQ(host[entry + 0x1f], lap % 2 == 0 ? 0x80 : 0) << "phase of lap " << lap;
    }
    write(at::kCq + 0x10 + 0x0c, 0x80900000 | (lap + 1) * 16);
  }
}

// "Always promiscuous: no MAC filter."
TEST_F(ObservedRx, AlwaysPromiscuous) {
  bring_up();
  for (unsigned i = 0; i < 3; ++i) put_rx(i, 2048);
  ring(at::kRxq, 3);
  Bytes unicast = plain_frame(60), broadcast = plain_frame(60), multicast = plain_frame(60);
  std::fill_n(broadcast.begin(), 6, uint8_t{0xff});
  multicast[0] = 0x01;
  wire().to_card = {unicast, broadcast, multicast};
  run();
  EXPECT_EQ(read(at::kRxq + 0x10), 0x00030003u);
}

}  // namespace
}  // namespace mqnic::card::test
