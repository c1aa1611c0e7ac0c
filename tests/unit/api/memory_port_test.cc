// The port in memory: order, room, and what it does not take.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "uroce/memory_port.h"

namespace uroce {
namespace {

constexpr uint32_t kFrames = 4;
constexpr uint32_t kFrameBytes = 100;

std::vector<uint8_t> frame_of(uint8_t value, uint32_t bytes) { return std::vector<uint8_t>(bytes, value); }

std::vector<uint8_t> copy(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

class MemoryPortTest : public testing::Test {
 protected:
  /// As an engine sends: takes room for `max` frames, fills some and sends those.
  uint32_t send(uint32_t max, const std::vector<std::vector<uint8_t>>& frames) { return send(port_, max, frames); }
  static uint32_t send(MemoryPort& port, uint32_t max, const std::vector<std::vector<uint8_t>>& frames) {
    TxFrame room[Port::kMaxBurst];
    const uint32_t got = port.acquire_tx(room, max);
    for (uint32_t i = 0; i < got && i < frames.size(); i++) {
      if (frames[i].empty()) continue;
      std::memcpy(room[i].data, frames[i].data(), frames[i].size());
      room[i].bytes = static_cast<uint32_t>(frames[i].size());
    }
    port.send(room, got);
    return got;
  }

  MemoryPort port_{kFrames, kFrameBytes};
};

TEST_F(MemoryPortTest, WhatIsSentIsTakenInOrder) {
  EXPECT_EQ(send(2, {frame_of(1, 10), frame_of(2, 20)}), 2u);
  EXPECT_EQ(port_.sent(), 2u);
  EXPECT_EQ(copy(*port_.take()), frame_of(1, 10));
  EXPECT_EQ(copy(*port_.take()), frame_of(2, 20));
  EXPECT_FALSE(port_.take().has_value());
}

TEST_F(MemoryPortTest, RoomThatWasNotUsedLeavesNoGap) {
  EXPECT_EQ(send(4, {frame_of(1, 10), {}, frame_of(3, 30)}), 4u);
  EXPECT_EQ(copy(*port_.take()), frame_of(1, 10));
  EXPECT_EQ(copy(*port_.take()), frame_of(3, 30));
  EXPECT_FALSE(port_.take().has_value());
}

TEST_F(MemoryPortTest, RoomComesBackWhenTheNextFrameIsTaken) {
  EXPECT_EQ(send(8, {frame_of(1, 10), frame_of(2, 20), frame_of(3, 30), frame_of(4, 40)}), 4u);
  EXPECT_EQ(send(8, {}), 0u) << "full";
  const auto first = *port_.take();
  EXPECT_EQ(send(8, {}), 0u) << "the frame is the caller's until the next call";
  EXPECT_EQ(copy(first), frame_of(1, 10));
  EXPECT_EQ(copy(*port_.take()), frame_of(2, 20));
  EXPECT_EQ(send(8, {frame_of(5, 50)}), 1u);
  for (const uint8_t value : std::vector<uint8_t>{3, 4, 5}) EXPECT_EQ((*port_.take())[0], value);
}

TEST_F(MemoryPortTest, WhatIsDeliveredIsReceivedInOrder) {
  for (const uint8_t value : std::vector<uint8_t>{1, 2, 3, 4}) EXPECT_TRUE(port_.deliver(frame_of(value, value * 10u)));
  EXPECT_FALSE(port_.deliver(frame_of(5, 10))) << "full";
  EXPECT_EQ(port_.waiting(), 4u);
  RxFrame frames[Port::kMaxBurst];
  ASSERT_EQ(port_.receive(frames, 3), 3u);
  EXPECT_FALSE(port_.deliver(frame_of(5, 10))) << "still the engine's";
  EXPECT_EQ(copy({frames[2].data, frames[2].bytes}), frame_of(3, 30));
  port_.release_rx(frames, 3);
  EXPECT_TRUE(port_.deliver(frame_of(5, 10)));
  ASSERT_EQ(port_.receive(frames, Port::kMaxBurst), 2u);
  EXPECT_EQ(frames[0].data[0], 4);
  EXPECT_EQ(frames[1].data[0], 5);
}

TEST_F(MemoryPortTest, AFrameThatIsTooLongIsNotTaken) {
  EXPECT_TRUE(port_.deliver(frame_of(1, kFrameBytes)));
  EXPECT_FALSE(port_.deliver(frame_of(1, kFrameBytes + 1)));
}

TEST_F(MemoryPortTest, WhatIsDiscardedMakesRoom) {
  EXPECT_EQ(send(8, {frame_of(1, 10), frame_of(2, 20), frame_of(3, 30), frame_of(4, 40)}), 4u);
  EXPECT_EQ(port_.discard(), 4u);
  EXPECT_EQ(port_.discard(), 0u);
  EXPECT_FALSE(port_.take().has_value());
  EXPECT_EQ(send(8, {frame_of(5, 50)}), 4u);
  EXPECT_EQ(copy(*port_.take()), frame_of(5, 50));
}

TEST_F(MemoryPortTest, ACongestedPortTakesNothingAndReceives) {
  port_.set_congested(true);
  EXPECT_EQ(send(8, {frame_of(1, 10)}), 0u);
  EXPECT_TRUE(port_.deliver(frame_of(2, 20)));
  RxFrame frames[Port::kMaxBurst];
  EXPECT_EQ(port_.receive(frames, Port::kMaxBurst), 1u);
  port_.release_rx(frames, 1);
  port_.set_congested(false);
  EXPECT_EQ(send(8, {frame_of(3, 30)}), 4u);
  EXPECT_EQ(copy(*port_.take()), frame_of(3, 30));
}

TEST_F(MemoryPortTest, JoinedPortsReceiveWhatTheOtherSendsAndGiveRoomBack) {
  MemoryPort other(kFrames, kFrameBytes);
  send(4, {frame_of(9, 90)});
  MemoryPort::join(port_, other);
  EXPECT_EQ(other.waiting(), 0u) << "what was there before is forgotten";
  RxFrame frames[Port::kMaxBurst];
  for (uint8_t round = 0; round < 3; round++) {
    for (auto [from, to] : {std::pair(&port_, &other), std::pair(&other, &port_)}) {
      EXPECT_EQ(send(*from, 8, {frame_of(round, 10), {}, frame_of(7, 30), frame_of(8, 40)}), 4u);
      EXPECT_EQ(send(*from, 8, {frame_of(5, 50)}), 1u) << "the frame that was not used left its room";
      EXPECT_EQ(to->waiting(), 4u);
      ASSERT_EQ(to->receive(frames, 3), 3u);
      EXPECT_EQ(copy({frames[0].data, frames[0].bytes}), frame_of(round, 10));
      EXPECT_EQ(copy({frames[2].data, frames[2].bytes}), frame_of(8, 40));
      EXPECT_EQ(send(*from, 8, {}), 0u) << "its peer still looks at them";
      to->release_rx(frames, 3);
      ASSERT_EQ(to->receive(frames, 3), 1u);
      EXPECT_EQ(copy({frames[0].data, frames[0].bytes}), frame_of(5, 50));
      to->release_rx(frames, 1);
      EXPECT_EQ(to->receive(frames, 3), 0u);
    }
  }
}

}  // namespace
}  // namespace uroce
