#include "segment/lane.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <numeric>

#include "base/random.h"
#include "support.h"

namespace uroce::segment {
namespace {

using namespace test;

/// Two members' halves of a lane; frames go from `tx` to `rx`.
struct LaneTest : ::testing::Test {
  LaneTest() {
    tx.connect(*theirs);
    rx.connect(*ours, *base);
  }
  static std::vector<uint8_t> bytes_of(size_t size, uint8_t seed) {
    std::vector<uint8_t> bytes(size);
    std::iota(bytes.begin(), bytes.end(), seed);
    return bytes;
  }
  LaneSender::Sent send(size_t size, uint8_t seed) {
    const uint16_t frame = pool.take();
    const auto bytes = bytes_of(size, seed);
    std::memcpy(pool.at(frame), bytes.data(), bytes.size());
    const auto sent = tx.send({frame, static_cast<uint16_t>(size)});
    tx.publish();
    return sent;
  }
  /// The next frame as the engine gets it: its headers are a private copy.
  std::optional<std::vector<uint8_t>> receive() {
    const auto frame = rx.receive(room.data());
    if (!frame) return std::nullopt;
    std::vector<uint8_t> bytes(frame->data, frame->data + frame->bytes);
    if (frame->headers != nullptr)
      std::memcpy(bytes.data(), frame->headers, std::min<size_t>(bytes.size(), LaneReceiver::kHeaderBytes));
    return bytes;
  }

  std::unique_ptr<BaseMemory> base = std::make_unique<BaseMemory>();
  std::unique_ptr<LaneMemory> ours = std::make_unique<LaneMemory>();
  std::unique_ptr<LaneMemory> theirs = std::make_unique<LaneMemory>();
  FramePool pool{*base};
  LaneSender tx{*ours, pool};
  LaneReceiver rx{*theirs};
  std::array<uint8_t, LaneReceiver::kRoomBytes> room{};
};

TEST_F(LaneTest, CarriesFramesOfAllSizes) {
  uint8_t seed = 0;
  for (size_t size = 14; size <= kFrameBytes; size += size < 200 ? 1 : 97) {
    ASSERT_EQ(send(size, ++seed), LaneSender::Sent::kInRing);
    EXPECT_EQ(receive(), bytes_of(size, seed)) << size;
    EXPECT_FALSE(receive());
    rx.release();
  }
  tx.reclaim();
  EXPECT_EQ(pool.free(), kPoolFrames);
  EXPECT_EQ(rx.nonsense(), 0u);
}

TEST_F(LaneTest, ABurstIsSeenAsOne) {
  for (uint32_t burst = 0; burst < 200; burst++) {
    for (uint8_t i = 0; i < 3; i++) {
      const uint16_t frame = pool.take();
      std::memcpy(pool.at(frame), bytes_of(100, i).data(), 100);
      ASSERT_EQ(tx.send({frame, 100}), LaneSender::Sent::kInRing);
      ASSERT_FALSE(rx.ready());
      ASSERT_FALSE(receive());
    }
    tx.publish();
    for (uint8_t i = 0; i < 3; i++) ASSERT_EQ(receive(), bytes_of(100, i));
    rx.release();
  }
}

TEST_F(LaneTest, AShortFrameLiesInTheSlotBehindItsMark) {
  send(60, 1);
  const Slot& slot = ours->slots[0];
  EXPECT_EQ(slot.mark.load(), uint64_t{1} << 32 | 60u << 16);
  EXPECT_EQ(std::memcmp(slot.bytes, bytes_of(60, 1).data(), 60), 0);
  EXPECT_EQ(pool.free(), kPoolFrames) << "its buffer is free at once";
}

/// An ACK over IPv4 has 62 bytes: two cache lines with its Ethernet header, one without.
TEST_F(LaneTest, AHeaderLikeTheOneBeforeIsNotSaidAgain) {
  send(62, 1);
  Slot& slot = ours->slots[1];
  std::fill_n(slot.bytes, kInlineBytes, uint8_t{0xEE});
  send(62, 1);
  EXPECT_EQ(slot.mark.load(), uint64_t{2} << 32 | 62u << 16 | 0xFFFF);
  EXPECT_EQ(std::memcmp(slot.bytes, bytes_of(62, 1).data() + 14, 48), 0);
  EXPECT_TRUE(std::all_of(slot.bytes + 56, slot.bytes + 120, [](uint8_t byte) { return byte == 0xEE; }))
      << "the second line is not touched";
  send(62, 2);
  EXPECT_EQ(Mark::decode(ours->slots[2].mark.load()).frame, 0) << "another header";
  EXPECT_EQ(receive(), bytes_of(62, 1));
  EXPECT_EQ(receive(), bytes_of(62, 1));
  EXPECT_EQ(receive(), bytes_of(62, 2));
}

TEST_F(LaneTest, TheHeaderOfALongFrameIsKnownToo) {
  send(2000, 1);
  send(134, 1);
  EXPECT_EQ(Mark::decode(ours->slots[1].mark.load()).frame, 0xFFFF) << "120 bytes and a header that is known";
  send(135, 1);
  EXPECT_LE(Mark::decode(ours->slots[2].mark.load()).frame, kPoolFrames);
  std::memset(base->frames[Mark::decode(ours->slots[0].mark.load()).frame - 1], 1, 14);
  ASSERT_TRUE(receive());
  std::vector<uint8_t> expected = bytes_of(134, 1);
  std::fill_n(expected.begin(), 14, 1);
  EXPECT_EQ(receive(), expected) << "as it was when the receiver read it";
  EXPECT_EQ(receive(), bytes_of(135, 1));
}

/// In bursts, through the backlog and around the ring; in between, slots that every receiver refuses.
TEST_F(LaneTest, FramesOfAllSizesAndHeadersInAnyOrder) {
  SeededRandom random(1);
  std::deque<std::vector<uint8_t>> under_way;
  uint32_t without_header = 0;
  const auto take = [&] {
    const auto frame = receive();
    if (!frame) return false;
    EXPECT_EQ(*frame, under_way.front());
    under_way.pop_front();
    return true;
  };
  for (int i = 0; i < 50'000 && !HasFailure(); i++) {
    if (random.below(8) == 0) {
      if (pool.free() != 0) send(1 + random.below(13), 1);
    } else {
      const size_t size = 14 + random.below(random.below(4) == 0 ? 4000 : 160);
      const auto seed = static_cast<uint8_t>(random.below(3));
      if (pool.free() == 0 || send(size, seed) == LaneSender::Sent::kDropped) continue;
      under_way.push_back(bytes_of(size, seed));
    }
    for (const Slot& slot : ours->slots)
      without_header += Mark::decode(slot.mark.load()).frame == Mark::kInSlotWithoutHeader ? 1 : 0;
    if (random.below(200) != 0) continue;
    while (take() && !HasFailure()) {
    }
    rx.release();
    tx.flush();
  }
  do {
    while (take()) {
    }
    rx.release();
    tx.flush();
  } while (rx.ready());
  EXPECT_TRUE(under_way.empty());
  EXPECT_GT(without_header, 1000u);
  EXPECT_GT(rx.nonsense(), 1000u);
}

/// When the mark says that the Ethernet header is known.
TEST_F(LaneTest, WithoutItsHeaderAFrameHasAnotherBound) {
  for (uint32_t i = 0; const int bytes : {13, 14, 134, 135}) {
    ours->slots[i].mark = Mark{i + 1, static_cast<uint16_t>(bytes), 0xFFFF}.encode();
    i++;
  }
  EXPECT_EQ(receive()->size(), 14u);
  EXPECT_EQ(receive()->size(), 134u);
  EXPECT_FALSE(receive());
  EXPECT_EQ(rx.nonsense(), 2u);
}

TEST_F(LaneTest, ALongFrameStaysWhereItWasBuilt) {
  send(2000, 1);
  const Mark mark = Mark::decode(ours->slots[0].mark.load());
  EXPECT_EQ(mark.bytes, 2000);
  const auto frame = rx.receive(room.data());
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->data, base->frames[mark.frame - 1]);
  EXPECT_EQ(frame->headers, room.data());
}

TEST_F(LaneTest, HeadersStayAsTheyWereRead) {
  send(2000, 1);
  const auto frame = rx.receive(room.data());
  ASSERT_TRUE(frame);
  const Mark mark = Mark::decode(ours->slots[0].mark.load());
  std::memset(base->frames[mark.frame - 1], 0xEE, 2000);
  EXPECT_EQ(std::memcmp(frame->headers, bytes_of(2000, 1).data(), LaneReceiver::kHeaderBytes), 0);
}

TEST_F(LaneTest, ABufferIsTheReceiversUntilItReleases) {
  send(2000, 1);
  ASSERT_TRUE(receive());
  tx.reclaim();
  EXPECT_EQ(pool.free(), kPoolFrames - 1);
  rx.release();
  tx.reclaim();
  EXPECT_EQ(pool.free(), kPoolFrames);
}

TEST_F(LaneTest, WhatAPeerHasReadIsUsedAgainLastAndWhatNobodyReadFirst) {
  send(60, 1);  // its bytes were copied, and its buffer is free at once
  const uint16_t unread = pool.take();
  pool.give_back(unread);
  send(2000, 1);
  const auto read = static_cast<uint16_t>(Mark::decode(ours->slots[1].mark.load()).frame - 1);
  EXPECT_EQ(read, unread) << "the buffer of the short frame";
  ASSERT_TRUE(receive());
  ASSERT_TRUE(receive());
  rx.release();
  tx.reclaim();
  for (uint32_t i = 1; i < kPoolFrames; i++) ASSERT_NE(pool.take(), read) << i;
  EXPECT_EQ(pool.take(), read);
}

TEST_F(LaneTest, WhatFindsNoRoomWaitsAndLeavesInOrder) {
  for (uint32_t i = 0; i < kSlots; i++) ASSERT_EQ(send(100, static_cast<uint8_t>(i)), LaneSender::Sent::kInRing);
  for (uint32_t i = 0; i < 10; i++) ASSERT_EQ(send(100, static_cast<uint8_t>(i)), LaneSender::Sent::kWaits);
  EXPECT_TRUE(tx.waiting());
  tx.flush();
  EXPECT_TRUE(tx.waiting());
  for (uint32_t i = 0; i < kSlots; i++) ASSERT_EQ(receive(), bytes_of(100, static_cast<uint8_t>(i)));
  rx.release();
  tx.flush();
  EXPECT_FALSE(tx.waiting());
  for (uint32_t i = 0; i < 10; i++) ASSERT_EQ(receive(), bytes_of(100, static_cast<uint8_t>(i)));
}

TEST_F(LaneTest, AsManyWaitAsTheBacklogHolds) {
  for (int life = 0; life < 2; life++) {
    for (uint32_t i = 0; i < kSlots; i++) ASSERT_EQ(send(100, 0), LaneSender::Sent::kInRing);
    for (uint32_t i = 0; i < LaneSender::kBacklog; i++) ASSERT_EQ(send(100, 1), LaneSender::Sent::kWaits) << i;
    const uint32_t free = pool.free();
    EXPECT_EQ(send(100, 2), LaneSender::Sent::kDropped);
    EXPECT_EQ(pool.free(), free);
    uint32_t received = 0;
    for (; receive(); received++) {
      rx.release();
      tx.flush();
    }
    EXPECT_EQ(received, kSlots + LaneSender::kBacklog);
    EXPECT_EQ(pool.free(), kPoolFrames);
  }
}

/// Wherever in the ring it begins, it takes as many frames as there are slots, and then one for each that was read.
TEST_F(LaneTest, FullAtAnyPlaceItTakesOneForEachThatASlowReaderReleases) {
  uint32_t sent = 0, read = 0;
  const auto number = [](uint32_t position) { return static_cast<uint8_t>(position % 251); };
  for (const uint32_t begin : {0u, 1u, 31u, 32u, 255u, 256u, 257u}) {
    while (sent % kSlots != begin % kSlots) {
      ASSERT_EQ(send(100, number(sent++)), LaneSender::Sent::kInRing);
      ASSERT_EQ(receive(), bytes_of(100, number(read++)));
      rx.release();
    }
    while (sent < read + kSlots) ASSERT_EQ(send(100, number(sent++)), LaneSender::Sent::kInRing) << begin;
    EXPECT_EQ(rx.waiting(), kSlots);
    for (uint32_t i = 0; i < 70; i++) {
      ASSERT_EQ(receive(), bytes_of(100, number(read++)));
      ASSERT_EQ(send(100, number(sent)), LaneSender::Sent::kWaits) << "read, and not released";
      rx.release();
      tx.flush();
      ASSERT_FALSE(tx.waiting()) << begin << " " << i;
      sent++;
      ASSERT_EQ(receive(), bytes_of(100, number(read++)));
      rx.release();
      ASSERT_EQ(send(100, number(sent++)), LaneSender::Sent::kInRing) << begin << " " << i;
      ASSERT_EQ(rx.waiting(), kSlots);
    }
    while (read < sent) ASSERT_EQ(receive(), bytes_of(100, number(read++)));
    EXPECT_FALSE(receive());
    rx.release();
  }
  tx.reclaim();
  EXPECT_EQ(pool.free(), kPoolFrames);
}

/// There is room again, but the frames that wait have not taken it yet.
TEST_F(LaneTest, NothingOvertakesWhatWaits) {
  for (uint32_t i = 0; i < kSlots; i++) send(100, 0);
  for (uint8_t i = 1; i <= 3; i++) ASSERT_EQ(send(i == 2 ? 2000 : 100, i), LaneSender::Sent::kWaits);
  for (uint32_t i = 0; i < kSlots; i++) ASSERT_TRUE(receive());
  rx.release();
  tx.reclaim();
  EXPECT_EQ(send(60, 4), LaneSender::Sent::kWaits);
  EXPECT_FALSE(receive());
  tx.flush();
  EXPECT_EQ(send(60, 5), LaneSender::Sent::kInRing);
  for (uint8_t i = 1; i <= 5; i++) EXPECT_EQ(receive(), bytes_of(i == 2 ? 2000 : i > 3 ? 60 : 100, i));
}

TEST_F(LaneTest, SaysThatItIsCongestedBeforeFramesHaveToWait) {
  uint32_t sent = 0;
  while (!tx.congested()) {
    ASSERT_EQ(send(100, 0), LaneSender::Sent::kInRing);
    sent++;
  }
  EXPECT_GE(sent, kSlots / 2);
  EXPECT_LE(sent, kSlots - 63);
  while (receive()) rx.release();
  EXPECT_FALSE(tx.congested());
}

TEST_F(LaneTest, HoldsNoMoreOfThePoolThanIsFair) {
  // A quarter of the free buffers, and hardly any of the last, so that others always find some, however many peers do
  // not read.
  // not read.
  const auto fill = [&] {
    while (receive()) rx.release();
    uint32_t held = 0;
    for (; !tx.congested(); held++) send(2000, 0);
    return held;
  };
  const uint32_t most = fill();
  EXPECT_GE(most, 150u);
  EXPECT_LE(most, kSlots);
  std::vector<uint16_t> others;
  while (receive()) rx.release();
  tx.reclaim();
  while (pool.free() > 400) others.push_back(pool.take());
  const uint32_t fewer = fill();
  EXPECT_GE(fewer, 70u);
  EXPECT_LE(fewer, 90u);
  while (receive()) rx.release();
  tx.reclaim();
  while (pool.free() > FramePool::kReserve - 1) others.push_back(pool.take());
  EXPECT_LE(fill(), 2u);
}

TEST_F(LaneTest, DropsWhatAStuckReceiverDoesNotTakeAtOnce) {
  for (uint32_t i = 0; i < kSlots; i++) send(100, 0);
  EXPECT_EQ(send(2000, 0), LaneSender::Sent::kWaits);
  tx.set_stuck(true);
  EXPECT_EQ(tx.drop_backlog(), 1u);
  EXPECT_FALSE(tx.congested()) << "so that whoever sends runs into its timers";
  EXPECT_EQ(send(2000, 0), LaneSender::Sent::kDropped);
  EXPECT_EQ(pool.free(), kPoolFrames);
}

TEST_F(LaneTest, AbandonedGivesEveryBufferBack) {
  for (uint32_t i = 0; i < kSlots + 20; i++) send(2000, 0);
  EXPECT_LT(pool.free(), kPoolFrames);
  tx.abandon();
  EXPECT_EQ(pool.free(), kPoolFrames);
}

TEST_F(LaneTest, CarriesBeforeTheOtherSideIsKnown) {
  LaneSender early{*theirs, pool};
  const uint16_t frame = pool.take();
  EXPECT_EQ(early.send({frame, 2000}), LaneSender::Sent::kInRing);
  early.publish();
  early.reclaim();
  EXPECT_EQ(pool.free(), kPoolFrames - 1);
  early.connect(*ours);
  ours->consumed = 1;
  early.reclaim();
  EXPECT_EQ(pool.free(), kPoolFrames);
}

TEST_F(LaneTest, BelievesNoReceiverThatSaysItReadWhatWasNotSent) {
  for (uint32_t i = 0; i < 3; i++) send(2000, 0);
  for (const uint64_t lie : {uint64_t{4}, uint64_t{1} << 40, ~uint64_t{0}}) {
    theirs->consumed = lie;
    tx.reclaim();
    EXPECT_EQ(pool.free(), kPoolFrames - 3) << lie;
  }
  theirs->consumed = 2;
  tx.reclaim();
  EXPECT_EQ(pool.free(), kPoolFrames - 1);
  theirs->consumed = 1;  // it goes back
  tx.reclaim();
  EXPECT_EQ(pool.free(), kPoolFrames - 1);
}

TEST_F(LaneTest, PassesOverSlotsThatMakeNoSense) {
  const Mark bad[] = {{1, 13, 0}, {2, 121, 0}, {3, kFrameBytes + 1, 1}, {4, 2000, kPoolFrames + 1}, {5, 2000, 0xFFFF}};
  for (uint32_t i = 0; i < std::size(bad); i++) ours->slots[i].mark = bad[i].encode();
  ours->slots[5].mark = Mark{6, 60, 0}.encode();
  EXPECT_TRUE(receive());
  EXPECT_EQ(rx.nonsense(), std::size(bad));
  EXPECT_FALSE(receive());
}

TEST_F(LaneTest, ReadsNoFurtherThanOneRoundWithoutRelease) {
  for (uint32_t i = 0; i < kSlots; i++) ours->slots[i].mark = Mark{i + 1, 60, 0}.encode();
  for (uint32_t i = 0; i < kSlots; i++) ASSERT_TRUE(receive());
  ours->slots[0].mark = Mark{kSlots + 1, 60, 0}.encode();
  EXPECT_FALSE(receive());
  rx.release();
  EXPECT_TRUE(receive());
}

/// Whatever the other side writes, at any moment, no access leaves our memory (the sanitizers watch), and in the end
/// every buffer is there.
TEST_F(LaneTest, SurvivesAnyScribble) {
  SeededRandom random(7);
  const auto scribble = [&](void* memory, size_t bytes) {
    const size_t at = random.next_u64() % (bytes - 8);
    const uint64_t word = random.below(2) != 0 ? random.next_u64() : random.below(300);
    std::memcpy(static_cast<uint8_t*>(memory) + (at & ~size_t{7}), &word, 8);
  };
  uint64_t received = 0;
  for (uint32_t i = 0; i < 300'000; i++) {
    scribble(theirs.get(), kPage);
    if (pool.free() != 0) send(14 + random.below(kFrameBytes - 14), 0);
    if (random.below(4) == 0) {
      // As if another writer had filled the ring.
      const uint64_t position = received + rx.nonsense();  // where the receiver looks next
      const Mark mark{static_cast<uint32_t>(position + 1), static_cast<uint16_t>(random.below(5000)),
                      static_cast<uint16_t>(random.below(4) == 0 ? 0xFFFF : random.below(1100))};
      ours->slots[position % kSlots].mark = random.below(2) != 0 ? random.next_u64() : mark.encode();
    }
    if (const auto frame = receive()) {  // and all its bytes are read
      received++;
      ASSERT_LE(frame->size(), kFrameBytes);
    }
    if (random.below(3) == 0) rx.release();
    if (tx.congested()) tx.flush();
  }
  EXPECT_GT(rx.nonsense(), 1000u);
  tx.abandon();
  EXPECT_EQ(pool.free(), kPoolFrames);
}

TEST_F(LaneTest, NothingButNonsenseEndsSomewhere) {
  for (uint32_t i = 0; i < kSlots; i++) ours->slots[i].mark = Mark{i + 1, 1, 0}.encode();
  while (rx.ready()) EXPECT_FALSE(receive());
  EXPECT_EQ(rx.nonsense(), kSlots);
  EXPECT_EQ(theirs->consumed, kSlots);
}

/// Otherwise a peer that writes nonsense as fast as it is read would occupy the receiver.
TEST_F(LaneTest, NonsenseTakesNoMoreTimeThanFramesDo) {
  for (uint32_t i = 0; i < kSlots; i++) ours->slots[i].mark = Mark{i + 1, 1, 0}.encode();
  EXPECT_FALSE(receive());
  EXPECT_GE(rx.nonsense(), 1u);
  EXPECT_LE(rx.nonsense(), uint64_t{Port::kMaxBurst});
}

}  // namespace
}  // namespace uroce::segment
