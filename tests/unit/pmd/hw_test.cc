// Registers in the order and with the values of the register documentation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <vector>

#include "pmd/hw/block_list.h"
#include "pmd/hw/boards.h"
#include "pmd/hw/checksum.h"
#include "pmd/hw/control.h"
#include "pmd/hw/description.h"
#include "pmd/hw/ptp_clock.h"
#include "pmd/hw/queue.h"
#include "tests/unit/pmd/fake_bus.h"

namespace mqnic::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// ---- Block lists

TEST(Description, OfASmallCard) {
  FakeBus bus = small_card();
  CardDescription card;
  const Failure failure = describe_card(bus, card);
  ASSERT_FALSE(failure) << failure.message;
  EXPECT_TRUE(bus.written.empty());
  EXPECT_EQ(card.board_id, 0x12340007u);
  EXPECT_EQ(card.firmware_version, 0x105u);
  EXPECT_EQ(card.ptp, 0xa0u);
  ASSERT_EQ(card.interfaces.size(), 1u);
  const InterfaceDescription& interface = card.interfaces[0];
  EXPECT_EQ(interface.features, 0x711u);
  EXPECT_EQ(interface.max_rx_frame_bytes, 9214u);
  EXPECT_EQ(interface.rx_fifo_bytes, 131072u);
  EXPECT_EQ(interface.event_queues.at(3), 0x10030u);
  EXPECT_EQ(interface.completion_queues.count, 48u);
  EXPECT_EQ(interface.tx_queues.at(31), 0x303e0u);
  EXPECT_EQ(interface.rx_queues.at(1), 0x40020u);
  EXPECT_EQ(interface.log2_queue_table, 8u);
  ASSERT_EQ(interface.ports.size(), 1u);
  EXPECT_EQ(interface.ports[0].control, 0x2000u);
  EXPECT_EQ(interface.ports[0].queue_map, 0x10d0u);
  EXPECT_EQ(interface.ports[0].queue_table, 0x50000u);
  ASSERT_EQ(interface.schedulers.size(), 1u);
  EXPECT_EQ(interface.schedulers[0].control, 0x3000u);
  EXPECT_EQ(interface.schedulers[0].channels.at(2), 0x60008u);
  read_block_sizes(bus, card);
  EXPECT_THAT(bus.written, ElementsAre(Pair(0x30010u, 0x8002ff00u)));
  EXPECT_EQ(card.interfaces[0].log2_block_max, 3u);
}

Failure describe(FakeBus& bus) {
  CardDescription card;
  return describe_card(bus, card);
}

TEST(Description, EveryVersionIsChecked) {
  struct {
    uint32_t at;
    const char* name;
  } const blocks[] = {{0x0, "firmware ID"},        {0x40, "interfaces"},      {0x1000, "interface control"},
                      {0x1040, "event queues"},    {0x1060, "completion qu"}, {0x1080, "TX queues"},
                      {0x10a0, "RX queues"},       {0x10c0, "RX queue map"},  {0x1100, "port"},
                      {0x1110, "scheduler block"}, {0x2000, "port control"},  {0x3000, "round-robin"}};
  for (const auto& block : blocks) {
    FakeBus bus = small_card();
    bus.registers[block.at + 4] = 0x299;
    const Failure failure = describe(bus);
    EXPECT_EQ(failure.code, -ENODEV) << block.name;
    EXPECT_THAT(failure.message, HasSubstr(block.name));
    EXPECT_THAT(failure.message, HasSubstr("0x299"));
    EXPECT_THAT(failure.message, HasSubstr("v4"));
  }
}

TEST(Description, EveryBlockIsNeeded) {
  for (const uint32_t at :
       {0x40u, 0x1000u, 0x1040u, 0x1060u, 0x1080u, 0x10a0u, 0x10c0u, 0x1100u, 0x1110u, 0x2000u, 0x3000u}) {
    FakeBus bus = small_card();
    bus.registers[at] = 0xcfff;  // an unknown type
    EXPECT_EQ(describe(bus).code, -ENODEV) << at;
  }
  FakeBus bus = small_card();
  bus.registers[0x1060] = 0xc021;  // RX completion queues of the previous generation
  EXPECT_THAT(describe(bus).message, HasSubstr("0xc020 (completion queues) is missing"));
}

TEST(Description, OldClockMeansNoClock) {
  FakeBus bus = small_card();
  bus.registers[0xa4] = 0x100;
  CardDescription card;
  ASSERT_FALSE(describe_card(bus, card));
  EXPECT_FALSE(card.ptp.has_value());
  ASSERT_EQ(card.notes.size(), 1u);
  EXPECT_THAT(card.notes[0], HasSubstr("PTP clock"));
}

TEST(Description, Loops) {
  for (const uint32_t at : {0x60u, 0x1120u, 0x2000u, 0x3000u}) {
    FakeBus bus = small_card();
    bus.registers[at + 8] = at;
    const Failure failure = describe(bus);
    EXPECT_EQ(failure.code, -ENODEV);
    EXPECT_THAT(failure.message, HasSubstr("loop"));
  }
  FakeBus bus = small_card();
  bus.registers[0xa8] = 0x40;  // a long one
  EXPECT_THAT(describe(bus).message, HasSubstr("loop"));
}

TEST(Description, AllOnes) {
  FakeBus bus;
  bus.registers = {{0x0, kAllOnes}, {0x4, kAllOnes}, {0x8, kAllOnes}};
  EXPECT_THAT(describe(bus).message, HasSubstr("needs a reset"));
  FakeBus half = small_card();
  half.registers[0x1044] = kAllOnes;  // removed in between
  EXPECT_THAT(describe(half).message, HasSubstr("all-ones at 0x1044"));
}

TEST(Description, NumbersThatMakeNoSense) {
  struct {
    uint32_t at, value;
  } const lies[] = {{0x50, 0},
                    {0x50, 5000},
                    {0x40 + 0x18, 0xfffffff0},
                    {0x1040 + 0x10, 0},
                    {0x1060 + 0x0c, 0x200000},
                    {0x1080 + 0x14, 0x10},
                    {0x1080 + 0x10, 0x7fffffff},
                    {0x10a0 + 0x14, 0xffffffe0},
                    {0x10cc, 0x4001},
                    {0x10cc, 0x0800},
                    {0x3000 + 0x10, 31},
                    {0x1010, 2},
                    {0x1014, 0},
                    {0x1020, 0},
                    {0x1024, 70000}};
  for (const auto& lie : lies) {
    FakeBus bus = small_card();
    bus.registers[lie.at] = lie.value;
    const Failure failure = describe(bus);
    EXPECT_EQ(failure.code, -ENODEV) << std::hex << lie.at << " " << lie.value;
    EXPECT_FALSE(failure.message.empty());
  }
}

TEST(Boards, AreKnownByTheirNumber) {
  EXPECT_STREQ(board_name(0x41449003), "Alpha Data ADM-PCIE-9V3");
  EXPECT_EQ(board_name(0x12340001), nullptr);
}

// ---- Queues

TEST(Queues, RingIsConfiguredWhileOff) {
  FakeBus bus;
  configure_ring(bus, 0x40020, {0x123456789000, 10, 3, 17});
  EXPECT_THAT(bus.written,
              ElementsAre(Pair(0x40030u, 0x40000100u), Pair(0x40020u, 0x56789000u), Pair(0x40024u, 0x1234u),
                          Pair(0x40030u, 0x8002030au), Pair(0x40030u, 0xc0000011u), Pair(0x40030u, 0x80900000u),
                          Pair(0x40030u, 0x80800000u)));
  bus.written.clear();
  enable_ring(bus, 0x40020, true);
  EXPECT_THAT(bus.written, ElementsAre(Pair(0x40030u, 0x40000101u)));
  bus.registers[0x40028] = 0x8;
  EXPECT_TRUE(is_ring_active(bus, 0x40020));
  bus.registers[0x40028] = 0x1;
  EXPECT_FALSE(is_ring_active(bus, 0x40020));
  bus.registers[0x40028] = kAllOnes;
  EXPECT_FALSE(is_ring_active(bus, 0x40020));
}

TEST(Queues, CompletionQueueEndsEnabledAndNotArmed) {
  FakeBus bus;
  configure_completion_queue(bus, 0x20030, 0xfffff000, 8, 2);
  EXPECT_THAT(bus.written,
              ElementsAre(Pair(0x2003cu, 0x40000100u), Pair(0x20030u, 0xfffff000u), Pair(0x20034u, 0u),
                          Pair(0x2003cu, 0x80020008u), Pair(0x2003cu, 0xc0000002u), Pair(0x2003cu, 0x80800000u),
                          Pair(0x2003cu, 0x80900000u), Pair(0x2003cu, 0x40000200u), Pair(0x2003cu, 0x40000101u)));
}

TEST(Control, Quiesce) {
  FakeBus bus = small_card();
  CardDescription card;
  ASSERT_FALSE(describe_card(bus, card));
  quiesce(bus, card.interfaces[0]);
  ASSERT_GT(bus.written.size(), 100u);
  EXPECT_EQ(bus.written.front(), std::make_pair(0x2014u, 0u));  // RX off first
  EXPECT_EQ(bus.written[1], std::make_pair(0x3018u, 0u));       // then the scheduler
  EXPECT_EQ(bus.written.back(), std::make_pair(0x2010u, 1u));   // lets packets leave that were taken from rings
  bus.written.clear();
  close_ports(bus, card.interfaces[0]);
  EXPECT_THAT(bus.written, ElementsAre(Pair(0x2010u, 0u)));
}

TEST(Control, QuiesceObeysNoPause) {
  FakeBus bus = small_card();
  bus.remembers = true;
  bus.registers[0x201c] = 0x03008000;
  CardDescription card;
  ASSERT_FALSE(describe_card(bus, card));
  quiesce(bus, card.interfaces[0]);
  EXPECT_EQ(bus.registers[0x201c], 0x01008000u);
}

TEST(Control, PortAndScheduler) {
  FakeBus bus = small_card();
  CardDescription card;
  ASSERT_FALSE(describe_card(bus, card));
  const InterfaceDescription& interface = card.interfaces[0];
  const PortDescription& port = interface.ports[0];
  set_rx_frame_bytes(bus, interface, 1519);
  set_tx_frame_bytes(bus, interface, 9214);
  enable_port_tx(bus, port, true);
  enable_scheduler(bus, interface.schedulers[0], true);
  enable_channel(bus, interface.schedulers[0], 5, true);
  enable_port_rx(bus, port, true);
  EXPECT_THAT(bus.written, ElementsAre(Pair(0x102cu, 1519u), Pair(0x1028u, 9214u), Pair(0x2010u, 1u), Pair(0x3018u, 1u),
                                       Pair(0x60014u, 3u), Pair(0x2014u, 1u)));
  bus.written.clear();
  const uint16_t queues[] = {3, 1};
  set_queue_table(bus, port, queues);
  enable_rss(bus, interface, port, true);
  EXPECT_THAT(bus.written, ElementsAre(Pair(0x50000u, 3u), Pair(0x50004u, 1u), Pair(0x10d8u, 0u), Pair(0x10d4u, 255u)));
}

TEST(Control, Link) {
  FakeBus bus = small_card();
  CardDescription card;
  ASSERT_FALSE(describe_card(bus, card));
  const PortDescription& port = card.interfaces[0].ports[0];
  EXPECT_EQ(link_state(bus, port), LinkState::kUp);
  bus.registers[0x2014] = 0x30001;  // RX in reset
  EXPECT_EQ(link_state(bus, port), LinkState::kDown);
  bus.registers[0x2014] = 0x00001;
  EXPECT_EQ(link_state(bus, port), LinkState::kDown);
  bus.registers[0x2014] = kAllOnes;
  EXPECT_EQ(link_state(bus, port), LinkState::kGone);
}

TEST(Control, Pause) {
  FakeBus bus = small_card();
  bus.remembers = true;
  CardDescription card;
  ASSERT_FALSE(describe_card(bus, card));
  const PortDescription& port = card.interfaces[0].ports[0];
  EXPECT_EQ(pause_setup(bus, port).watermark_bytes, 0x10000u);
  set_pause(bus, port, {true, false, 0});
  EXPECT_EQ(bus.registers[0x201c], 0x01010000u);
  set_pause(bus, port, {true, true, 0x8000});
  EXPECT_EQ(bus.registers[0x201c], 0x03008000u);
  EXPECT_TRUE(pause_setup(bus, port).obey);
}

// ---- Clock

TEST(Clock, GroupsAreReadAndWrittenInOrder) {
  FakeBus bus;
  bus.registers = {{0xa0 + 0x34, 123456789}, {0xa0 + 0x38, 0x80000001}, {0xa0 + 0x3c, 0x2}};
  PtpClock clock(bus, 0xa0);
  const TimeOfDay now = clock.time();
  EXPECT_EQ(now.nanoseconds, 123456789u);
  EXPECT_EQ(now.seconds, 0x280000001u);
  clock.set_time({0x3'00000005, 7});
  EXPECT_THAT(bus.written, ElementsAre(Pair(0xf4u, 7u), Pair(0xf8u, 5u), Pair(0xfcu, 3u)));
  bus.written.clear();
  clock.adjust(-1000);
  EXPECT_THAT(bus.written, ElementsAre(Pair(0xf0u, 0xfffffc18u)));
  bus.written.clear();
  clock.adjust(-1'200'000'000);  // far: reads and sets the clock
  EXPECT_THAT(bus.written, ElementsAre(Pair(0xf4u, 923456789u), Pair(0xf8u, 0x7fffffffu), Pair(0xfcu, 2u)));
  for (const int64_t nearest : {499'999'999, 500'000'000}) {  // half a second is far, in both directions
    for (const int64_t offset : {nearest, -nearest}) {
      bus.written.clear();
      clock.adjust(offset);
      EXPECT_EQ(bus.written.size(), nearest == 500'000'000 ? 3u : 1u) << offset;
    }
  }
}

TEST(Clock, WhatIsPending) {
  FakeBus bus;
  PtpClock clock(bus, 0xa0);
  for (const auto& [control, pending] :
       {std::pair{0x00010100u, false}, std::pair{0x01010000u, true}, std::pair{0x02010000u, true},
        std::pair{0x3c010000u, false}, std::pair{kAllOnes, false}}) {
    bus.registers[0xac] = control;
    EXPECT_EQ(clock.pending(), pending) << std::hex << control;
  }
}

// ---- Checksums: a packet of a capture, 14 bytes Ethernet, IPv4, UDP "hi" from 10.0.0.1:1 to 10.0.0.2:2

TEST(Checksums, LiteralPacket) {
  const uint8_t frame[] = {2,  0,  0,    0,    0,  2, 2, 0, 0,  0, 0, 1, 0x08, 0, 0x45, 0, 0, 30, 0,    0,    0,   0,
                           64, 17, 0x66, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2, 0,    1, 0,    2, 0, 10, 0x83, 0x6b, 'h', 'i'};
  const uint16_t sum = ones_complement_sum(frame + 14, sizeof(frame) - 14);
  // By hand: the IPv4 header sums to ffff, UDP to 0001 + 0002 + 000a + 836b + 6869 = ebe1.
  EXPECT_EQ(sum, 0xebe1);
  ReceivedChecksums seen = check_received(frame, sizeof(frame), sizeof(frame), sum);
  EXPECT_EQ(seen.ipv4_header, ChecksumVerdict::kGood);
  EXPECT_EQ(seen.l4, ChecksumVerdict::kGood);
  seen = check_received(frame, sizeof(frame), sizeof(frame), static_cast<uint16_t>(sum + 1));
  EXPECT_EQ(seen.l4, ChecksumVerdict::kBad);
  // Only the first 42 bytes can be read, as in the first of several buffers.
  EXPECT_EQ(check_received(frame, 42, sizeof(frame), sum).l4, ChecksumVerdict::kGood);
  EXPECT_EQ(check_received(frame, 41, sizeof(frame), sum).l4, ChecksumVerdict::kUnknown);
  for (size_t head = 0; head <= sizeof(frame); ++head) {
    for (size_t whole = head; whole <= sizeof(frame); ++whole) check_received(frame, head, whole, sum);
  }
}

uint16_t bytewise_sum(const std::vector<uint8_t>& bytes, size_t from, size_t to) {
  uint32_t sum = 0;
  for (size_t i = from; i < to; ++i) sum += (i - from) % 2 == 0 ? uint32_t{bytes[i]} << 8 : bytes[i];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

TEST(Checksums, SumOfAnyLengthAtAnyPlace) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> bytes(random() % 70);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 3 == 0 ? 0xff : random());
    const size_t from = bytes.empty() ? 0 : random() % bytes.size();
    ASSERT_EQ(ones_complement_sum(bytes.data() + from, bytes.size() - from), bytewise_sum(bytes, from, bytes.size()));
  }
}

/// A frame of UDP or TCP with right checksums.
std::vector<uint8_t> usual_frame(size_t bytes, uint8_t protocol) {
  std::vector<uint8_t> frame(bytes);
  for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<uint8_t>(i * 37 + bytes);
  const auto put = [&](size_t at, size_t value) {
    frame[at] = static_cast<uint8_t>(value >> 8);
    frame[at + 1] = static_cast<uint8_t>(value);
  };
  const size_t field = protocol == 17 ? 40 : 50;
  put(12, 0x0800);
  put(14, 0x4500);
  put(16, bytes - 14);
  put(20, 0x4000);
  put(22, 0x4000u | protocol);
  put(24, 0);
  put(24, ~bytewise_sum(frame, 14, 34) & 0xffffu);
  put(field, 0);
  uint32_t sum = bytewise_sum(frame, 34, bytes) + bytewise_sum(frame, 26, 34) + protocol + uint32_t(bytes - 34);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  put(field, sum == 0xffff ? 0xffffu : ~sum & 0xffffu);
  return frame;
}

// The fast path for most frames agrees with the general one, whatever the frame is.
TEST(Checksums, TheUsualWayAgreesWithTheGeneralOne) {
  std::mt19937 random(2);
  unsigned taken = 0, good = 0;
  for (int round = 0; round < 200000; ++round) {
    std::vector<uint8_t> frame = usual_frame(54 + random() % 60, random() % 2 == 0 ? 17 : 6);
    uint16_t sum = bytewise_sum(frame, 14, frame.size());
    const unsigned kind = random() % 4;
    if (kind == 1) frame[12 + random() % 42] ^= static_cast<uint8_t>(1u << random() % 8);
    if (kind == 2) frame[12 + random() % 42] = static_cast<uint8_t>(random());
    if (kind == 3) sum = static_cast<uint16_t>(random() % 2 == 0 ? random() : random() % 2 * 0xffff);
    if (kind == 1 && random() % 2 == 0) sum = bytewise_sum(frame, 14, frame.size());
    if (random() % 16 == 0) frame[40] = frame[41] = 0;  // UDP without a checksum
    const size_t head = random() % 4 == 0 ? random() % (frame.size() + 1) : frame.size();
    const size_t whole = random() % 8 == 0 ? head + random() % 30 : frame.size();
    const std::vector<uint8_t> exact(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(std::min(head, whole)));
    ReceivedChecksums usual;
    if (!check_usual(exact.data(), exact.size(), whole, sum, usual)) continue;
    const ReceivedChecksums general = check_received(exact.data(), exact.size(), whole, sum);
    ASSERT_EQ(usual.ipv4_header, general.ipv4_header) << round;
    ASSERT_EQ(usual.l4, general.l4) << round;
    ++taken;
    good += usual.l4 == ChecksumVerdict::kGood ? 1 : 0;
  }
  EXPECT_GT(taken, 100000u);
  EXPECT_GT(good, 30000u);
}

}  // namespace
}  // namespace mqnic::test
