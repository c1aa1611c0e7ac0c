// Where a responder stands: what comes next, what is acknowledged, and when the peer is told of a gap.
#include "transport/receive_sequence.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

class ReceiveSequenceTest : public testing::Test {
 protected:
  using Gap = ReceiveSequence::Gap;
  using Nak = ReceiveSequence::Nak;
  static constexpr uint32_t kFirst = 0xFFFFFE;  // the numbers wrap

  ReceiveSequenceTest() { sequence_.start(psn(0)); }
  static Psn psn(uint32_t at) { return Psn(kFirst) + at; }
  void message(uint32_t packets = 1) {
    for (uint32_t i = 1; i <= packets; i++) {
      sequence_.on_next();
      sequence_.on_accepted(1, i == packets, false);
    }
  }
  void read(uint32_t psns) {
    sequence_.on_next();
    sequence_.on_accepted(psns, true, true);
  }

  ReceiveSequence sequence_;
};

TEST_F(ReceiveSequenceTest, PacketsAndMessagesAreCounted) {
  EXPECT_EQ(sequence_.next(), psn(0));
  EXPECT_EQ(sequence_.msn(), 0u);
  message(3);
  EXPECT_EQ(sequence_.next(), Psn(1));
  EXPECT_EQ(sequence_.msn(), 1u);
  EXPECT_EQ(sequence_.acknowledged(), Psn(0));
  sequence_.on_accepted(1, false, false);
  EXPECT_EQ(sequence_.msn(), 1u) << "in the middle of one";
  EXPECT_EQ(sequence_.acknowledged(), Psn(1));
}

TEST_F(ReceiveSequenceTest, NothingReceivedIsTheNumberBefore) {
  EXPECT_EQ(sequence_.acknowledged(), psn(0) - 1);
  EXPECT_FALSE(sequence_.ends_with_read());
}

TEST_F(ReceiveSequenceTest, ReadsAtTheEndAreNotAcknowledged) {
  message();
  read(5);
  read(1);
  EXPECT_TRUE(sequence_.ends_with_read());
  EXPECT_EQ(sequence_.next(), psn(7));
  EXPECT_EQ(sequence_.acknowledged(), psn(0));
  EXPECT_EQ(sequence_.msn(), 3u);
  message();
  EXPECT_FALSE(sequence_.ends_with_read());
  EXPECT_EQ(sequence_.acknowledged(), psn(7));
}

TEST_F(ReceiveSequenceTest, ManyReadsDoNotMakeTheAckOneFromTheFuture) {
  for (int i = 0; i < 10; i++) read(1 << 21);
  EXPECT_EQ(distance(sequence_.acknowledged(), sequence_.next()), (1 << 22) + 1);
}

TEST_F(ReceiveSequenceTest, AGapIsToldOnce) {
  EXPECT_FALSE(sequence_.silent());
  EXPECT_EQ(sequence_.on_dropped(psn(1)), Gap::kNew);
  EXPECT_TRUE(sequence_.silent());
  EXPECT_EQ(sequence_.on_dropped(psn(2)), Gap::kKnown);
  message();
  EXPECT_FALSE(sequence_.silent());
  EXPECT_EQ(sequence_.on_dropped(psn(2)), Gap::kNew);
}

TEST_F(ReceiveSequenceTest, WhatIsNotReadyIsAGapThatThePeerKnows) {
  sequence_.on_next();
  sequence_.on_not_ready();
  EXPECT_TRUE(sequence_.silent());
  EXPECT_EQ(sequence_.on_dropped(psn(1)), Gap::kKnown);
  EXPECT_EQ(sequence_.next(), psn(0));
  sequence_.on_next();
  EXPECT_FALSE(sequence_.silent());
}

TEST_F(ReceiveSequenceTest, ANakIsTrueUntilAllThatWasDroppedCameAgain) {
  EXPECT_EQ(sequence_.on_dropped(psn(3)), Gap::kNew);
  EXPECT_EQ(sequence_.on_dropped(psn(1)), Gap::kKnown);  // the furthest one counts
  for (uint32_t at = 0; at < 3; at++) {
    message();
    EXPECT_FALSE(sequence_.silent());
    EXPECT_EQ(sequence_.review_nak(), Nak::kTrue) << at;
    EXPECT_TRUE(sequence_.silent());
  }
  message();
  EXPECT_EQ(sequence_.review_nak(), Nak::kObsolete);
  EXPECT_FALSE(sequence_.silent());
}

TEST_F(ReceiveSequenceTest, ANakForWhatDroppedNothingIsObsoleteAtOnce) {
  sequence_.on_next();
  sequence_.on_not_ready();
  message();
  EXPECT_EQ(sequence_.review_nak(), Nak::kObsolete);
}

TEST_F(ReceiveSequenceTest, OneReadMayCloseTheGap) {
  EXPECT_EQ(sequence_.on_dropped(psn(3)), Gap::kNew);
  read(4);
  EXPECT_EQ(sequence_.review_nak(), Nak::kObsolete);
}

TEST_F(ReceiveSequenceTest, GoingBack) {
  message();
  read(4);
  sequence_.go_back(psn(2), 1);
  EXPECT_EQ(sequence_.next(), psn(2));
  EXPECT_EQ(sequence_.msn(), 1u);
}

/// A peer's READs may take more numbers than half the circle before the first of them turns out to be impossible.
TEST_F(ReceiveSequenceTest, GoingBackByMoreThanHalfTheCircle) {
  for (int i = 0; i < 5; i++) read(1 << 21);
  sequence_.go_back(psn(0), 0);
  EXPECT_EQ(sequence_.next(), psn(0));
}

TEST_F(ReceiveSequenceTest, ResetForgetsAllButTheNextNumber) {
  read(2);
  EXPECT_EQ(sequence_.on_dropped(psn(5)), Gap::kNew);
  sequence_.reset();
  EXPECT_EQ(sequence_.next(), psn(2));
  EXPECT_EQ(sequence_.msn(), 0u);
  EXPECT_FALSE(sequence_.silent());
  EXPECT_FALSE(sequence_.ends_with_read());
  EXPECT_EQ(sequence_.review_nak(), Nak::kObsolete);
  sequence_.start(Psn(77));
  EXPECT_EQ(sequence_.next(), Psn(77));
}

}  // namespace
}  // namespace uroce::test
