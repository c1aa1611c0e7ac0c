// Packets held out of order: which come out, in what order, and how many each queue pair may hold.
#include "transport/reorder_buffer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/random.h"

namespace uroce {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A SEND whose four bytes of payload are its PSN.
struct Request {
  explicit Request(Psn psn) {
    for (uint32_t i = 0; i < 4; i++) bytes[i] = static_cast<uint8_t>(psn.value() >> (8 * i));
    view.bth.opcode = kOpSendMiddle;
    view.bth.psn = psn;
    view.info = &opcode_info(kOpSendMiddle);
    view.ext = view.payload = bytes.data();
    view.payload_bytes = 4;
  }
  std::array<uint8_t, 4> bytes;
  PacketView view;
};

uint32_t payload_of(const PacketView& view) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < 4; i++) value |= uint32_t{view.payload[i]} << (8 * i);
  return value;
}

class ReorderBufferTest : public testing::Test {
 protected:
  ReorderBufferTest() { pool_.prepare(); }

  ReorderBuffer::Result hold(uint32_t psn, uint32_t psns = 1) { return hold(buffer_, psn, psns); }
  ReorderBuffer::Result hold(ReorderBuffer& buffer, uint32_t psn, uint32_t psns = 1) const {
    return buffer.hold(Request(Psn(psn)).view, psns, now_);
  }
  std::vector<std::pair<uint32_t, uint32_t>> recent(uint32_t most = 16) const {
    std::vector<SackRange> ranges(most);
    ranges.resize(buffer_.recent(ranges));
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (const SackRange& r : ranges) pairs.emplace_back(r.first.value(), r.end.value());
    return pairs;
  }
  std::vector<std::pair<uint32_t, uint32_t>> runs() const {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (uint32_t run = buffer_.first_run(); run != ReorderBuffer::kNone; run = buffer_.run_after(run)) {
      pairs.emplace_back(buffer_.range(run).first.value(), buffer_.range(run).end.value());
    }
    return pairs;
  }
  using Range = std::pair<uint32_t, uint32_t>;

  Instant now_{1'000'000};
  ReorderPool pool_{64, 256};
  ReorderBuffer buffer_{&pool_};
};

constexpr auto kHeld = ReorderBuffer::Result::kHeld;
constexpr auto kAgain = ReorderBuffer::Result::kAgain;
constexpr auto kFull = ReorderBuffer::Result::kFull;

TEST_F(ReorderBufferTest, RunsGrowJoinAndKeepTheOrderOfTheirLastChange) {
  EXPECT_EQ(hold(12), kHeld);
  EXPECT_EQ(hold(20), kHeld);
  EXPECT_EQ(hold(14), kHeld);
  EXPECT_THAT(recent(), ElementsAre(Range(14, 15), Range(20, 21), Range(12, 13)));
  EXPECT_EQ(hold(13), kHeld);
  EXPECT_THAT(recent(), ElementsAre(Range(12, 15), Range(20, 21)));
  EXPECT_EQ(hold(19), kHeld);
  EXPECT_EQ(hold(21), kHeld);
  EXPECT_THAT(recent(), ElementsAre(Range(19, 22), Range(12, 15)));
  EXPECT_THAT(recent(1), ElementsAre(Range(19, 22)));
  EXPECT_THAT(runs(), ElementsAre(Range(12, 15), Range(19, 22)));
  EXPECT_EQ(buffer_.packets(), 6u);
}

TEST_F(ReorderBufferTest, WhatIsHeldIsNotHeldTwice) {
  hold(12);
  hold(13);
  hold(20, 4);
  for (const uint32_t psn : {12u, 13u, 20u, 23u}) EXPECT_EQ(hold(psn), kAgain) << psn;
  EXPECT_EQ(hold(18, 3), kAgain);  // a READ request that claims PSNs of another packet
  EXPECT_EQ(hold(18, 2), kHeld);
  EXPECT_THAT(runs(), ElementsAre(Range(12, 14), Range(18, 24)));
}

TEST_F(ReorderBufferTest, ComesOutInOrderWithItsBytes) {
  for (const uint32_t psn : {3u, 1u, 2u, 7u}) hold(psn);
  PacketView view;
  EXPECT_FALSE(buffer_.take(Psn(0), view));
  for (const uint32_t psn : {1u, 2u, 3u}) {
    ASSERT_TRUE(buffer_.take(Psn(psn), view));
    EXPECT_EQ(view.bth.psn.value(), psn);
    EXPECT_EQ(view.bth.opcode, kOpSendMiddle);
    EXPECT_EQ(view.payload_bytes, 4u);
    EXPECT_EQ(payload_of(view), psn);
  }
  EXPECT_FALSE(buffer_.take(Psn(4), view));
  EXPECT_THAT(runs(), ElementsAre(Range(7, 8)));
  EXPECT_TRUE(buffer_.take(Psn(7), view));
  EXPECT_TRUE(buffer_.empty());
  EXPECT_EQ(pool_.free(), 64u);
}

TEST_F(ReorderBufferTest, WhatIsPassedByIsDropped) {
  for (const uint32_t psn : {3u, 4u, 9u}) hold(psn);
  PacketView view;
  EXPECT_TRUE(buffer_.take(Psn(9), view));
  EXPECT_TRUE(buffer_.empty());
  EXPECT_EQ(pool_.free(), 64u);
}

TEST_F(ReorderBufferTest, SequenceNumbersWrap) {
  for (const uint32_t psn : {2u, 0xFFFFFFu, 1u, 0xFFFFFEu}) EXPECT_EQ(hold(psn), kHeld);
  EXPECT_THAT(runs(), ElementsAre(Range(0xFFFFFE, 0), Range(1, 3)));
  EXPECT_EQ(hold(0), kHeld);
  EXPECT_THAT(recent(), ElementsAre(Range(0xFFFFFE, 3)));
  PacketView view;
  for (const uint32_t psn : {0xFFFFFEu, 0xFFFFFFu, 0u, 1u, 2u}) EXPECT_TRUE(buffer_.take(Psn(psn), view)) << psn;
}

TEST_F(ReorderBufferTest, OneAloneMayHoldHalfOfThePool) {
  uint32_t held = 0;
  while (held < 100 && hold(2 * held) == kHeld) held++;
  EXPECT_EQ(held, 32u);
  EXPECT_EQ(hold(500), kFull);
  ReorderBuffer other(&pool_);
  uint32_t others = 0;
  while (others < 100 && hold(other, 2 * others) == kHeld) others++;
  EXPECT_EQ(others, 16u);
  buffer_.clear();
  EXPECT_EQ(pool_.free(), 48u);
  EXPECT_EQ(hold(other, 500), kHeld);
}

/// A peer that died left a gap: its packets must not take room from others for ever.
TEST_F(ReorderBufferTest, WhatASilentPeerLeftGivesWay) {
  for (uint32_t i = 0; i < 32; i++) hold(2 * i);
  now_ = now_ + milliseconds(999);
  ReorderBuffer other(&pool_);
  ReorderBuffer third(&pool_);
  EXPECT_EQ(hold(third, 1), kHeld);
  uint32_t others = 0;
  while (hold(other, 2 * others) == kHeld) others++;
  EXPECT_EQ(others, 16u);
  EXPECT_EQ(buffer_.packets(), 32u);
  now_ = now_ + milliseconds(1);
  while (hold(other, 2 * others) == kHeld) others++;
  EXPECT_EQ(buffer_.packets(), 0u);
  EXPECT_TRUE(runs().empty());
  EXPECT_EQ(others, 32u);
  EXPECT_EQ(third.packets(), 1u);
  // A connection's packets never displace its own.
  now_ = now_ + milliseconds(5000);
  for (others = 0; hold(third, 100 + 2 * others) == kHeld;) others++;
  EXPECT_EQ(other.packets(), 0u);
  EXPECT_EQ(hold(third, 500), kFull);
  EXPECT_EQ(hold(100), kHeld);
}

TEST_F(ReorderBufferTest, GivesBackWhatItHeldWhenItGoes) {
  {
    ReorderBuffer other(&pool_);
    hold(other, 1);
    hold(other, 5);
    EXPECT_EQ(pool_.free(), 62u);
  }
  EXPECT_EQ(pool_.free(), 64u);
}

TEST_F(ReorderBufferTest, WithoutAPoolAndWithTooMuchPayloadNothingIsHeld) {
  ReorderBuffer none(nullptr);
  EXPECT_EQ(hold(none, 1), kFull);
  std::vector<uint8_t> bytes(257);
  Request request(Psn(1));
  request.view.ext = request.view.payload = bytes.data();
  request.view.payload_bytes = 257;
  EXPECT_EQ(buffer_.hold(request.view, 1, now_), kFull);
  request.view.payload_bytes = 256;
  EXPECT_EQ(buffer_.hold(request.view, 1, now_), kHeld);
}

TEST_F(ReorderBufferTest, ExtensionHeadersAreHeldToo) {
  std::array<uint8_t, Reth::kBytes + 8> bytes{};
  Reth{0x1122334455667788, 0xAABBCCDD, 8}.encode(bytes.data());
  bytes.back() = 0x5A;
  PacketView view;
  view.bth.opcode = kOpWriteOnly;
  view.bth.psn = Psn(5);
  view.info = &opcode_info(kOpWriteOnly);
  view.ext = bytes.data();
  view.payload = view.ext + Reth::kBytes;
  view.payload_bytes = 8;
  EXPECT_EQ(buffer_.hold(view, 1, now_), kHeld);
  bytes.fill(0);
  PacketView out;
  ASSERT_TRUE(buffer_.take(Psn(5), out));
  EXPECT_EQ(out.reth().va, 0x1122334455667788u);
  EXPECT_EQ(out.reth().rkey, 0xAABBCCDDu);
  EXPECT_EQ(out.payload[7], 0x5A);
}

TEST_F(ReorderBufferTest, AgapCutInTwoKeepsWhenItWasAskedFor) {
  hold(20);
  buffer_.asked_at(buffer_.first_run()) = Instant{77};
  hold(15);
  EXPECT_EQ(buffer_.asked_at(buffer_.first_run()), Instant{77});
  hold(14);  // the run now begins with another packet
  EXPECT_EQ(buffer_.asked_at(buffer_.first_run()), Instant{77});
  EXPECT_EQ(buffer_.asked_at(buffer_.run_after(buffer_.first_run())), Instant{77});
}

/// Compared with a map, which is obviously right.
TEST_F(ReorderBufferTest, AgreesWithAMap) {
  for (uint64_t seed = 1; seed <= 30; seed++) {
    SeededRandom random(seed);
    std::map<uint32_t, uint32_t> held;  // offset from the base to span
    ReorderPool pool(512, 64);
    pool.prepare();
    ReorderBuffer buffer(&pool);
    const Psn base(0xFFFFFF - 100);
    uint32_t next = 0;
    for (uint32_t step = 0; step < 2000; step++) {
      if (random.below(4) != 0) {
        const uint32_t at = next + 1 + random.below(60);
        const uint32_t span = 1 + random.below(3);
        const bool overlaps = std::any_of(
            held.begin(), held.end(), [&](const auto& h) { return at < h.first + h.second && h.first < at + span; });
        const auto expected = overlaps ? kAgain : kHeld;
        ASSERT_EQ(buffer.hold(Request(base + at).view, span, now_), expected) << "seed " << seed << " step " << step;
        if (!overlaps) held[at] = span;
      } else {
        next += random.below(20);
        held.erase(held.begin(), held.lower_bound(next));
        PacketView view;
        const bool there = held.contains(next);
        ASSERT_EQ(buffer.take(base + next, view), there) << "seed " << seed << " step " << step;
        if (there) {
          EXPECT_EQ(payload_of(view), (base + next).value());
          held.erase(next);
        }
      }
      ASSERT_EQ(buffer.packets(), held.size());
      ASSERT_EQ(pool.free(), 512 - held.size());
      std::vector<Range> expected_runs;
      for (const auto& [at, span] : held) {
        if (!expected_runs.empty() && expected_runs.back().second == (base + at).value()) {
          expected_runs.back().second = (base + (at + span)).value();
        } else {
          expected_runs.emplace_back((base + at).value(), (base + (at + span)).value());
        }
      }
      std::vector<Range> seen;
      for (uint32_t run = buffer.first_run(); run != ReorderBuffer::kNone; run = buffer.run_after(run)) {
        seen.emplace_back(buffer.range(run).first.value(), buffer.range(run).end.value());
      }
      ASSERT_EQ(seen, expected_runs) << "seed " << seed << " step " << step;
      std::vector<SackRange> all(600);
      ASSERT_EQ(buffer.recent(all), seen.size());
    }
  }
}

}  // namespace
}  // namespace uroce
