// Frames in a ring of bytes: in order and whole between two sides that keep to the rules, never beyond the ring
// otherwise.
#include "pmd/card/wires/frame_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace mqnic::card {
namespace {

constexpr uint32_t kBytes = 65536;

class FrameRing : public testing::Test {
 protected:
  bool write(size_t bytes, uint8_t fill) {
    const std::span<uint8_t> room = writer_.reserve(bytes, reader_.tail());
    if (room.empty()) return false;
    std::memset(room.data(), fill, bytes);
    writer_.commit(bytes);
    return true;
  }
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBytes);
  FrameWriter writer_{memory_.data(), kBytes};
  FrameReader reader_{memory_.data(), kBytes};
};

TEST_F(FrameRing, FramesComeInOrderRoundAndRound) {
  for (unsigned i = 0; i < 5000; i++) {
    const size_t bytes = 1 + i * 7 % 3000;
    ASSERT_TRUE(write(bytes, static_cast<uint8_t>(i)));
    const auto frame = reader_.front(writer_.head());
    ASSERT_EQ(frame.size(), bytes);
    EXPECT_EQ(frame.front(), static_cast<uint8_t>(i));
    EXPECT_EQ(frame.back(), static_cast<uint8_t>(i));
    reader_.pop();
    EXPECT_TRUE(reader_.front(writer_.head()).empty());
  }
  EXPECT_EQ(reader_.damages(), 0u);
}

TEST_F(FrameRing, AHeadThatCannotBeIsDamage) {
  ASSERT_TRUE(write(100, 1));
  const uint32_t right = writer_.head();
  for (const uint32_t head : {right + 1, right + 8, kBytes + 16}) {
    reader_.restart();
    const uint64_t before = reader_.damages();
    EXPECT_TRUE(reader_.front(head).empty()) << head;
    EXPECT_EQ(reader_.damages(), before + 1) << head;
    EXPECT_EQ(reader_.tail(), head & ~15u) << "everything up to there is thrown away";
  }
}

TEST_F(FrameRing, AFullRingIsReadAndTakesNoMore) {
  unsigned written = 0;
  while (write(1008, static_cast<uint8_t>(written))) written++;
  EXPECT_EQ(written, kBytes / 1024);
  for (unsigned i = 0; i < written; i++) {
    const auto frame = reader_.front(writer_.head());
    ASSERT_EQ(frame.size(), 1008u) << i;
    EXPECT_EQ(frame.front(), static_cast<uint8_t>(i));
    reader_.pop();
  }
  EXPECT_EQ(reader_.damages(), 0u);
}

}  // namespace
}  // namespace mqnic::card
