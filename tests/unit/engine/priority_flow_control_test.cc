// Priority flow control by itself: what pause frames do to us, and which ones we send.
#include "engine/priority_flow_control.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "bytes.h"
#include "transport/counters.h"

namespace uroce::test {
namespace {

constexpr MacAddress kMac{{0x02, 0, 0, 0, 0, 1}};
constexpr Instant kStart{1'000'000'000};

// At 512 Gbit/s a quantum is a nanosecond.
PfcConfig config() {
  PfcConfig config;
  config.lossless = 0b1000;
  config.bits_per_second = 512'000'000'000;
  config.xoff_frames = 100;
  config.xon_frames = 20;
  config.watchdog = Duration{};
  return config;
}

class PriorityFlowControlTest : public testing::Test {
 protected:
  void pause(uint8_t priorities, uint16_t quanta, Instant now, bool per_priority = true) {
    Pause pause;
    pause.per_priority = per_priority;
    pause.priorities = priorities;
    pause.quanta.fill(quanta);
    std::array<uint8_t, kPauseFrameBytes> bytes{};
    encode_pause(bytes, pause);
    EXPECT_TRUE(pfc.on_frame(bytes, now));
  }
  /// The frame that leaves at `now`; empty when there is none.
  std::vector<uint8_t> sent(Instant now) {
    std::vector<uint8_t> bytes(128);
    TxFrame frame{bytes.data(), static_cast<uint32_t>(bytes.size()), 0, nullptr};
    if (!pfc.poll_transmit(frame, now)) return {};
    bytes.resize(frame.bytes);
    return bytes;
  }
  void use(const PfcConfig& other) {
    std::destroy_at(&pfc);
    std::construct_at(&pfc, other, kMac, counters);
  }

  Counters counters;
  PriorityFlowControl pfc{config(), kMac, counters};
};

TEST_F(PriorityFlowControlTest, OnlyLosslessPrioritiesObey) {
  pause(0b1010, 1000, kStart);
  EXPECT_EQ(pfc.paused(), 0b1000);
  EXPECT_EQ(pfc.next_event(), kStart + nanoseconds(1000));
  pfc.on_time(kStart + nanoseconds(999));
  EXPECT_EQ(pfc.paused(), 0b1000);
  pfc.on_time(kStart + nanoseconds(1000));
  EXPECT_EQ(pfc.paused(), 0);
  EXPECT_EQ(pfc.paused_for(3), nanoseconds(1000));
  EXPECT_EQ(pfc.next_event(), Instant::never());
  EXPECT_EQ(counters.rx_pause_frames, 1u);
}

TEST_F(PriorityFlowControlTest, ANewPauseReplacesTheOldOneAndZeroEndsIt) {
  pause(0b1000, 1000, kStart);
  pause(0b1000, 5000, kStart + nanoseconds(500));
  pfc.on_time(kStart + nanoseconds(5499));
  EXPECT_EQ(pfc.paused(), 0b1000);
  pause(0b1000, 0, kStart + nanoseconds(5499));
  EXPECT_EQ(pfc.paused(), 0);
  EXPECT_EQ(pfc.paused_for(3), nanoseconds(5499));
  pause(0b1000, 1000, kStart + nanoseconds(6000));
  EXPECT_EQ(pfc.paused_for(3), nanoseconds(5499));
  EXPECT_EQ(pfc.paused_for(3, kStart + nanoseconds(6100)), nanoseconds(5599));
}

TEST_F(PriorityFlowControlTest, LinkPauseIsADifferentThing) {
  pause(0xff, 1000, kStart, false);
  EXPECT_EQ(pfc.paused(), 0);
  EXPECT_EQ(counters.rx_drop_mac_control, 1u);
  PfcConfig link = config();
  link.link_pause = true;
  use(link);
  pause(0xff, 1000, kStart, false);
  EXPECT_EQ(pfc.paused(), 0xff);
}

TEST_F(PriorityFlowControlTest, OffMeansThatPauseFramesAreCountedAndForgotten) {
  use(PfcConfig{});
  EXPECT_FALSE(pfc.enabled());
  pause(0xff, 1000, kStart);
  EXPECT_EQ(pfc.paused(), 0);
  EXPECT_EQ(counters.rx_drop_mac_control, 1u);
  pfc.on_backlog(100'000, kStart);
  EXPECT_TRUE(sent(kStart).empty());
}

TEST_F(PriorityFlowControlTest, OtherFramesAreLeftAlone) {
  EXPECT_FALSE(pfc.on_frame(std::array<uint8_t, 64>{}, kStart));
  EXPECT_FALSE(pfc.on_frame({}, kStart));
}

TEST_F(PriorityFlowControlTest, ABacklogPausesTheNeighbourUntilItIsGone) {
  pfc.on_backlog(99, kStart);
  EXPECT_TRUE(sent(kStart).empty());
  pfc.on_backlog(100, kStart);
  EXPECT_EQ(pfc.next_event(), kStart);
  EXPECT_EQ(sent(kStart), from_hex("0180c2000001 020000000001 8808 0101 0008"
                                   "0000 0000 0000 ffff 0000 0000 0000 0000" +
                                   std::string(2 * 26, '0')));
  EXPECT_TRUE(sent(kStart).empty());
  // Repeated before it ends, as long as more than xon_frames wait.
  const Instant half = kStart + nanoseconds(32767);
  pfc.on_backlog(21, half);
  EXPECT_EQ(pfc.next_event(), half);
  EXPECT_FALSE(sent(half).empty());
  pfc.on_backlog(20, half);
  EXPECT_EQ(sent(half), from_hex("0180c2000001 020000000001 8808 0101 0008" + std::string(2 * 42, '0')));
  EXPECT_TRUE(sent(half + milliseconds(1)).empty());
  EXPECT_EQ(counters.tx_pause_frames, 3u);
  EXPECT_EQ(pfc.pauses_begun(), 1u);
}

TEST_F(PriorityFlowControlTest, WhatCouldNotLeaveInTimeIsForgotten) {
  pfc.on_backlog(100, kStart);
  pfc.on_backlog(0, kStart);
  EXPECT_TRUE(sent(kStart).empty());
  // It ended and began again before a frame left: the pause goes on.
  pfc.on_backlog(100, kStart);
  EXPECT_FALSE(sent(kStart).empty());
  pfc.on_backlog(0, kStart);
  pfc.on_backlog(100, kStart);
  EXPECT_EQ(sent(kStart).at(24), 0xff);
}

TEST_F(PriorityFlowControlTest, TheWatchdogIgnoresAPauseWithoutEnd) {
  PfcConfig guarded = config();
  guarded.watchdog = microseconds(100);
  guarded.watchdog_restore = microseconds(300);
  use(guarded);
  for (int64_t us = 0; us < 100; us += 10) {
    pause(0b1000, 65535, kStart + microseconds(us));
    pfc.on_time(kStart + microseconds(us));
    EXPECT_EQ(pfc.paused(), 0b1000) << us;
  }
  EXPECT_EQ(pfc.next_event(), kStart + microseconds(100));
  pfc.on_time(kStart + microseconds(100));
  EXPECT_EQ(pfc.paused(), 0);
  EXPECT_EQ(counters.pfc_watchdog_fired, 1u);
  pause(0b1000, 65535, kStart + microseconds(390));
  EXPECT_EQ(pfc.paused(), 0);
  pfc.on_time(kStart + microseconds(400));
  EXPECT_EQ(pfc.paused(), 0b1000) << "after the restore time pauses count again";
  pfc.on_time(kStart + microseconds(390) + nanoseconds(65535));
  EXPECT_EQ(pfc.paused(), 0) << "and end as usual";
}

}  // namespace
}  // namespace uroce::test
