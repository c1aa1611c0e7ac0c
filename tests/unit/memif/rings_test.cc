#include "memif/rings.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/random.h"
#include "support.h"

namespace uroce::memif {
namespace {

using namespace test;
using Taken = InRing::Taken;
using Put = OutRing::Put;

constexpr bool kToServer = true;
constexpr bool kToClient = false;
constexpr uint32_t kRoom = 4352;

class RingsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(memory_.add(client_.file.get(), client_.bytes()), "");
    empty_rings();
  }
  /// Empty rings, with cookies and descriptors as they should be.
  void empty_rings() {
    client_.write_cookies();
    for (uint32_t i = 0; i < 4; i++) {
      client_.describe(kToServer, i, ClientMemory::kBuffer);
      client_.describe(kToClient, i, ClientMemory::kBuffer);
    }
    ASSERT_TRUE(in_.open(memory_, {0, client_.ring(kToServer), 2}));
    ASSERT_TRUE(out_.open(memory_, {0, client_.ring(kToClient), 2}));
  }
  Taken take() { return in_.take(memory_, frame_.data(), kRoom, bytes_); }
  Put put(uint32_t bytes, uint8_t fill = 7) {
    const std::vector<uint8_t> frame(bytes, fill);
    return out_.put(memory_, frame.data(), bytes);
  }
  ClientMemory client_;  // four slots
  Memory memory_;
  InRing in_;
  OutRing out_;
  std::array<uint8_t, kRoom> frame_{};
  uint32_t bytes_ = 0;
};

TEST_F(RingsTest, AFrameOfTheClient) {
  client_.describe(kToServer, 0, 3);
  std::memcpy(client_.base + client_.buffer(kToServer, 0), "abc", 3);
  client_.set_head(kToServer, 1);
  ASSERT_TRUE(in_.begin());
  ASSERT_EQ(take(), Taken::kFrame);
  EXPECT_EQ(bytes_, 3u);
  EXPECT_EQ(std::memcmp(frame_.data(), "abc", 3), 0);
  EXPECT_EQ(take(), Taken::kNothing);
  EXPECT_EQ(client_.tail(kToServer), 0) << "the slots come back all at once";
  in_.finish();
  EXPECT_EQ(client_.tail(kToServer), 1);
}

TEST_F(RingsTest, ClientsAreToldNotToRingTheBell) { EXPECT_EQ(client_.base[4], 1); }

TEST_F(RingsTest, AFrameInTwoSlots) {
  client_.describe(kToServer, 0, 2, 1);
  client_.describe(kToServer, 1, 1);
  std::memcpy(client_.base + client_.buffer(kToServer, 0), "ab", 2);
  std::memcpy(client_.base + client_.buffer(kToServer, 1), "c", 1);
  client_.set_head(kToServer, 2);
  ASSERT_TRUE(in_.begin());
  ASSERT_EQ(take(), Taken::kFrame);
  EXPECT_EQ(bytes_, 3u);
  EXPECT_EQ(std::memcmp(frame_.data(), "abc", 3), 0);
}

TEST_F(RingsTest, IndicesWrapAround) {
  for (uint32_t i = 0; i < 70'000; i++) {
    client_.describe(kToServer, i, 1);
    client_.base[client_.buffer(kToServer, i)] = static_cast<uint8_t>(i);
    client_.set_head(kToServer, static_cast<uint16_t>(i + 1));
    ASSERT_TRUE(in_.begin());
    ASSERT_EQ(take(), Taken::kFrame);
    ASSERT_EQ(frame_[0], static_cast<uint8_t>(i));
    in_.finish();
  }
}

TEST_F(RingsTest, HeadsThatCannotBe) {
  for (const unsigned head : {5u, 0x8000u, 0xffffu}) {
    client_.set_head(kToServer, static_cast<uint16_t>(head));
    EXPECT_FALSE(in_.begin()) << head;
    client_.set_head(kToClient, static_cast<uint16_t>(head));
    EXPECT_FALSE(out_.begin()) << head;
  }
  client_.set_head(kToServer, 4);
  EXPECT_TRUE(in_.begin()) << "all slots";
}

TEST_F(RingsTest, AHeadThatGoesBack) {
  client_.set_head(kToServer, 3);
  ASSERT_TRUE(in_.begin());
  while (take() == Taken::kFrame) {
  }
  in_.finish();
  client_.set_head(kToServer, 2);
  EXPECT_FALSE(in_.begin());
}

TEST_F(RingsTest, OurPlaceIsNotReadBackFromTheClient) {
  client_.set_head(kToServer, 1);
  client_.describe(kToServer, 0, 1);
  ASSERT_TRUE(in_.begin());
  ASSERT_EQ(take(), Taken::kFrame);
  in_.finish();
  const uint16_t lie = 0x1234;
  std::memcpy(client_.base + client_.ring(kToServer) + 64, &lie, 2);
  ASSERT_TRUE(in_.begin());
  EXPECT_EQ(take(), Taken::kNothing);
}

TEST_F(RingsTest, DescriptorsThatPointOutside) {
  const auto bytes = static_cast<uint32_t>(client_.bytes());
  struct Case {
    uint32_t length, offset;
    uint16_t region;
  };
  for (const Case& c :
       {Case{1, bytes, 0}, Case{2, bytes - 1, 0}, Case{0xffffffff, 0, 0}, Case{0xffffffff, 0xffffffff, 0},
        Case{1, 0xffffffff, 0}, Case{0, bytes + 1, 0}, Case{1, 0, 1}, Case{0, 0, 0xffff}}) {
    ASSERT_NO_FATAL_FAILURE(empty_rings());
    client_.describe_at(kToServer, 0, c.length, c.offset, 0, c.region);
    client_.set_head(kToServer, 1);
    ASSERT_TRUE(in_.begin());
    EXPECT_EQ(take(), Taken::kBroken) << c.length << " at " << c.offset << " of " << c.region;
    client_.describe_at(kToClient, 0, c.length, c.offset, 0, c.region);
    client_.set_head(kToClient, 1);
    ASSERT_TRUE(out_.begin());
    EXPECT_EQ(put(1), Put::kBroken);
  }
}

TEST_F(RingsTest, AFrameThatGoesOnWhereThereIsNothing) {
  client_.describe(kToServer, 0, 1, 1);
  client_.set_head(kToServer, 1);
  ASSERT_TRUE(in_.begin());
  EXPECT_EQ(take(), Taken::kBroken);
}

TEST_F(RingsTest, AFrameThatNeverEnds) {
  for (uint32_t i = 0; i < 4; i++) client_.describe(kToServer, i, 1, 1);
  client_.set_head(kToServer, 4);
  ASSERT_TRUE(in_.begin());
  EXPECT_EQ(take(), Taken::kBroken);
}

TEST_F(RingsTest, AFrameThatDoesNotFitIsSkippedAndTheNextOneIsNot) {
  const auto long_one = static_cast<uint32_t>(client_.bytes());
  client_.describe_at(kToServer, 0, long_one, 0);
  client_.describe(kToServer, 1, ClientMemory::kBuffer, 1);
  client_.describe(kToServer, 2, ClientMemory::kBuffer, 1);
  client_.describe(kToServer, 3, 257);  // 4353 in all
  client_.set_head(kToServer, 4);
  ASSERT_TRUE(in_.begin());
  EXPECT_EQ(take(), Taken::kTooLong);
  EXPECT_EQ(take(), Taken::kTooLong);
  EXPECT_EQ(take(), Taken::kNothing);
  in_.finish();
  client_.describe(kToServer, 4, 9);
  client_.set_head(kToServer, 5);
  ASSERT_TRUE(in_.begin());
  EXPECT_EQ(take(), Taken::kFrame);
  EXPECT_EQ(bytes_, 9u);
}

TEST_F(RingsTest, AFrameThatJustFits) {
  client_.describe(kToServer, 0, ClientMemory::kBuffer, 1);
  client_.describe(kToServer, 1, ClientMemory::kBuffer, 1);
  client_.describe(kToServer, 2, 256);
  client_.set_head(kToServer, 3);
  ASSERT_TRUE(in_.begin());
  EXPECT_EQ(take(), Taken::kFrame);
  EXPECT_EQ(bytes_, 4352u);
}

TEST_F(RingsTest, NothingAtAllIsAFrameToo) {
  client_.describe(kToServer, 0, 0);
  client_.set_head(kToServer, 1);
  ASSERT_TRUE(in_.begin());
  EXPECT_EQ(take(), Taken::kFrame);
  EXPECT_EQ(bytes_, 0u);
}

TEST_F(RingsTest, AFrameForTheClient) {
  EXPECT_TRUE(out_.begin());
  EXPECT_EQ(put(100), Put::kFull) << "it has offered no slot";
  client_.set_head(kToClient, 4);
  ASSERT_TRUE(out_.begin());
  EXPECT_EQ(put(100, 42), Put::kSent);
  EXPECT_EQ(client_.tail(kToClient), 0);
  out_.finish();
  EXPECT_EQ(client_.tail(kToClient), 1);
  EXPECT_EQ(client_.length(kToClient, 0), 100u);
  EXPECT_EQ(client_.flags(kToClient, 0), 0);
  EXPECT_EQ(client_.base[client_.buffer(kToClient, 0) + 99], 42);
  EXPECT_EQ(client_.base[client_.buffer(kToClient, 0) + 100], 0);
}

TEST_F(RingsTest, ALongFrameForTheClientTakesMoreSlots) {
  client_.set_head(kToClient, 4);
  ASSERT_TRUE(out_.begin());
  EXPECT_EQ(put(2 * ClientMemory::kBuffer + 1), Put::kSent);
  EXPECT_EQ(put(1), Put::kSent);
  EXPECT_EQ(put(1), Put::kFull);
  out_.finish();
  EXPECT_EQ(client_.tail(kToClient), 4);
  EXPECT_EQ(client_.flags(kToClient, 0), 1);
  EXPECT_EQ(client_.flags(kToClient, 1), 1);
  EXPECT_EQ(client_.flags(kToClient, 2), 0);
  EXPECT_EQ(client_.length(kToClient, 1), ClientMemory::kBuffer);
  EXPECT_EQ(client_.length(kToClient, 2), 1u);
}

TEST_F(RingsTest, AFrameThatHasToWaitForSlotsLeavesThemAsTheyWere) {
  client_.set_head(kToClient, 2);
  ASSERT_TRUE(out_.begin());
  EXPECT_EQ(put(2 * ClientMemory::kBuffer + 1), Put::kFull);
  client_.set_head(kToClient, 4);
  ASSERT_TRUE(out_.begin());
  EXPECT_EQ(put(2 * ClientMemory::kBuffer + 1), Put::kSent);
  out_.finish();
  EXPECT_EQ(client_.tail(kToClient), 3);
}

TEST_F(RingsTest, SlotsThatHoldNothingDoNotHoldUsUp) {
  for (uint32_t i = 0; i < 4; i++) client_.describe(kToClient, i, 0);
  client_.set_head(kToClient, 4);
  ASSERT_TRUE(out_.begin());
  EXPECT_EQ(put(1), Put::kTooLong);
  EXPECT_EQ(put(4 * ClientMemory::kBuffer + 1), Put::kTooLong);
}

TEST_F(RingsTest, NoRingWithoutItsCookie) {
  client_.base[client_.ring(kToServer)] ^= 1;
  EXPECT_FALSE(in_.open(memory_, {0, client_.ring(kToServer), 2}));
  client_.base[client_.ring(kToClient)] ^= 1;
  EXPECT_FALSE(out_.open(memory_, {0, client_.ring(kToClient), 2}));
}

TEST_F(RingsTest, NoRingOutsideTheMemory) {
  EXPECT_FALSE(in_.open(memory_, {1, 0, 2}));
  EXPECT_FALSE(in_.open(memory_, {0, static_cast<uint32_t>(client_.bytes()) - 64, 2}));
}

/// Any bytes in any ring: it ends, stays inside the memory (sanitizers look at that), and never takes more than a ring.
TEST_F(RingsTest, AnyBytes) {
  SeededRandom random(1);
  uint64_t frames = 0;
  uint64_t broken = 0;
  for (int round = 0; round < 20'000; round++) {
    ASSERT_NO_FATAL_FAILURE(empty_rings());
    for (const bool to_server : {true, false}) client_.set_head(to_server, static_cast<uint16_t>(random.below(6)));
    const uint32_t changes = random.below(24);
    for (uint32_t i = 0; i < changes; i++) {
      const uint32_t at = random.below(2 * client_.ring_bytes());
      if (at % client_.ring_bytes() < 4) continue;
      client_.base[at] = static_cast<uint8_t>(random.below(4) == 0 ? random.below(256) : random.below(6));
    }
    for (unsigned i = 0; in_.begin() && i <= 4; i++) {
      const Taken taken = take();
      if (taken == Taken::kFrame) frames++;
      if (taken == Taken::kBroken) broken++;
      if (taken == Taken::kNothing || taken == Taken::kBroken) break;
      ASSERT_LT(i, 4u) << "more frames than slots";
      ASSERT_LE(bytes_, kRoom);
    }
    for (unsigned i = 0; out_.begin() && i <= 4; i++) {
      const Put put_it = put(1 + random.below(3000));
      if (put_it == Put::kBroken) broken++;
      if (put_it != Put::kSent) break;
      ASSERT_LT(i, 4u);
    }
  }
  EXPECT_GT(frames, 1000u);
  EXPECT_GT(broken, 1000u);
}

/// The same while another thread keeps writing.
TEST_F(RingsTest, BytesThatChangeWhileTheyAreRead) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    SeededRandom random(2);
    while (!stop.load(std::memory_order_relaxed)) {
      const uint32_t at = random.below(2 * client_.ring_bytes());
      if (at % client_.ring_bytes() < 4) continue;
      std::atomic_ref<uint8_t>(client_.base[at])
          .store(static_cast<uint8_t>(random.below(6)), std::memory_order_relaxed);
    }
  });
  for (int round = 0; round < 20'000; round++) {
    if (in_.begin()) {
      for (unsigned i = 0; i < 4 && take() != Taken::kBroken; i++) ASSERT_LE(bytes_, kRoom);
      in_.finish();
    }
    if (out_.begin()) {
      put(1 + static_cast<uint32_t>(round) % 3000);
      out_.finish();
    }
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace uroce::memif
