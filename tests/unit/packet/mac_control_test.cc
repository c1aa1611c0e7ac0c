#include "packet/mac_control.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/random.h"
#include "bytes.h"

namespace uroce {
namespace {

using test::from_hex;
using test::to_hex;

constexpr MacAddress kUs{{0x52, 0x54, 0x00, 0x00, 0x00, 0x01}};

// 802.1Qbb: priorities 3 and 5, one paused for as long as possible, one released.
constexpr const char* kPriorityPause =
    "0180c2000001 525400000001 8808 0101 0028"
    "0000 0000 0000 ffff 0000 0000 0000 0000"
    "0000000000000000000000000000000000000000000000000000";

TEST(MacControl, LiteralPriorityPause) {
  Pause pause;
  pause.src_mac = kUs;
  pause.priorities = 0x28;
  pause.quanta = {9, 9, 9, 0xffff, 9, 0, 9, 9};  // those that are not enabled are written as zero
  std::vector<uint8_t> out(64, 0xee);
  ASSERT_EQ(encode_pause(out, pause), 60u);
  EXPECT_EQ(to_hex(std::span(out).first(60)), to_hex(from_hex(kPriorityPause)));
  EXPECT_EQ(out[60], 0xee);
  EXPECT_EQ(encode_pause(std::span(out).first(59), pause), 0u);

  const auto back = decode_pause(from_hex(kPriorityPause));
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->per_priority);
  EXPECT_EQ(back->src_mac, kUs);
  EXPECT_EQ(back->priorities, 0x28);
  EXPECT_EQ(back->quanta[3], 0xffff);
  EXPECT_EQ(back->quanta[5], 0);
}

TEST(MacControl, LiteralPauseOfEverything) {
  const auto frame = from_hex("0180c2000001 525400000002 8808 0001 1234");
  const auto pause = decode_pause(frame);
  ASSERT_TRUE(pause);
  EXPECT_FALSE(pause->per_priority);
  EXPECT_EQ(pause->priorities, 0xff);
  for (const uint16_t quanta : pause->quanta) EXPECT_EQ(quanta, 0x1234);
  std::vector<uint8_t> out(60, 0xee);
  ASSERT_EQ(encode_pause(out, *pause), 60u);
  EXPECT_EQ(to_hex(std::span(out).first(18)), to_hex(frame));
  EXPECT_EQ(to_hex(std::span(out).subspan(18)), std::string(84, '0'));
}

TEST(MacControl, WhatIsIgnored) {
  const auto good = from_hex(kPriorityPause);
  const auto with = [&good](size_t at, uint8_t value) {
    auto frame = good;
    frame[at] = value;
    return decode_pause(frame).has_value();
  };
  EXPECT_TRUE(with(16, 0xff));   // reserved octet of the enable vector
  EXPECT_FALSE(with(5, 2));      // another address
  EXPECT_FALSE(with(12, 0x08));  // another ethertype
  EXPECT_FALSE(with(13, 0x09));
  EXPECT_FALSE(with(14, 0x02));  // neither opcode
  EXPECT_FALSE(with(15, 0x02));
  for (size_t bytes = 0; bytes < 34; bytes++) {
    EXPECT_FALSE(decode_pause(std::span(good).first(bytes)).has_value()) << bytes;
  }
  EXPECT_TRUE(decode_pause(std::span(good).first(34)).has_value());
  EXPECT_FALSE(is_mac_control(std::span(good).first(13)));
  EXPECT_TRUE(is_mac_control(std::span(good).first(14)));
}

TEST(MacControl, PauseTimes) {
  EXPECT_EQ(pause_time(65535, 10'000'000'000).ns, 3'355'392);  // 3.36 ms at 10G
  EXPECT_EQ(pause_time(65535, 100'000'000'000).ns, 335'540);   // 335.5392 us, rounded up
  EXPECT_EQ(pause_time(1, 1'000'000'000).ns, 512);
  EXPECT_EQ(pause_time(0, 1'000'000'000).ns, 0);
  EXPECT_EQ(pause_time(5, 0).ns, 0);
}

TEST(PauseClock, EachPriorityHasItsOwn) {
  PauseClock clock;
  EXPECT_EQ(clock.paused({0}), 0);
  EXPECT_EQ(clock.next_resume(), Instant::never());
  Pause pause;
  pause.priorities = 0x0a;
  pause.quanta = {0, 10, 0, 20, 0, 0, 0, 0};
  clock.on_pause(pause, 1'000'000'000, {1000});
  EXPECT_EQ(clock.paused({1000}), 0x0a);
  EXPECT_EQ(clock.next_resume().ns, 1000 + 10 * 512);
  EXPECT_EQ(clock.paused({1000 + 10 * 512 - 1}), 0x0a);
  EXPECT_EQ(clock.paused({1000 + 10 * 512}), 0x08);
  EXPECT_EQ(clock.next_resume().ns, 1000 + 20 * 512);
  EXPECT_EQ(clock.paused({1000 + 20 * 512}), 0);
  EXPECT_EQ(clock.next_resume(), Instant::never());
}

TEST(PauseClock, ANewPauseReplacesTheOldOne) {
  PauseClock clock;
  Pause pause;
  pause.priorities = 0x03;
  pause.quanta.fill(100);
  clock.on_pause(pause, 1'000'000'000, {0});
  pause.priorities = 0x01;
  pause.quanta.fill(0);
  clock.on_pause(pause, 1'000'000'000, {10});  // ends the pause of one
  EXPECT_EQ(clock.paused({10}), 0x02);
  pause.priorities = 0x02;
  pause.quanta.fill(1);  // shorter than the time left
  clock.on_pause(pause, 1'000'000'000, {20});
  EXPECT_EQ(clock.next_resume().ns, 532);
  EXPECT_EQ(clock.paused({532}), 0);
}

TEST(MacControl, AnyBytesAtAll) {
  SeededRandom random(5);
  const auto good = from_hex(kPriorityPause);
  unsigned taken = 0;
  for (int repeat = 0; repeat < 100000; repeat++) {
    auto frame = good;
    for (uint32_t changes = random.below(4); changes > 0; changes--) {
      frame[random.below(40)] = static_cast<uint8_t>(random.next_u32());
    }
    frame.resize(random.below(61));
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[frame.size()]);
    std::copy(frame.begin(), frame.end(), exact.get());
    if (decode_pause({exact.get(), frame.size()})) taken++;
  }
  EXPECT_GT(taken, 1000u);
}

}  // namespace
}  // namespace uroce
