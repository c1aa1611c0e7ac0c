// READ responses and atomic results in PSN order: what is queued, what gives way, and what asking again does to it.
#include "transport/reply_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ReplyQueueTest : public testing::Test {
 protected:
  using Repeat = ReplyQueue::Repeat;
  using Sent = ReplyQueue::Sent;
  static constexpr uint32_t kMtu = 256;
  static constexpr uint32_t kFirst = 0xFFFFFC;  // the numbers wrap in most of these
  static constexpr uint64_t kVa = 0x10000;

  ReplyQueueTest() {
    queue_.make_room(3);
    queue_.start(kMtu);
  }
  /// `packets` packets of one large READ from packet `from` on; the last is short by `missing` bytes.
  static Reply part(uint32_t from, uint32_t packets, uint32_t missing = 0) {
    Reply reply;
    reply.psn = Psn(kFirst) + from;
    reply.va = kVa + uint64_t{from} * kMtu;
    reply.rkey = 7;
    reply.remaining = packets * kMtu - missing;
    return reply;
  }
  static Reply again(Reply reply) {
    reply.again = true;
    return reply;
  }
  static Reply atomic(uint32_t at) {
    Reply reply;
    reply.atomic = true;
    reply.psn = Psn(kFirst) + at;
    return reply;
  }
  /// A READ of other memory than that of `part`.
  static Reply read(uint32_t at, uint32_t packets) {
    Reply reply = part(at, packets);
    reply.va = 0x90000;
    return reply;
  }
  /// Takes out all replies, as "first packet+packets", with "again" for repetitions.
  std::vector<std::string> drain() {
    std::vector<std::string> all;
    for (; !queue_.empty(); queue_.pop()) {
      const Reply& reply = queue_.front();
      const auto number = [](int32_t n) { return std::to_string(n); };
      all.push_back(number(distance(Psn(kFirst), reply.psn)) + "+" + number(distance(reply.psn, reply.end(kMtu))) +
                    (reply.again ? " again" : ""));
    }
    return all;
  }

  ReplyQueue queue_;
};

TEST_F(ReplyQueueTest, RepliesLeaveInOrderAndPacketByPacket) {
  queue_.push(part(0, 3, 200));
  queue_.push(atomic(3));
  EXPECT_TRUE(queue_.read_is_next());
  EXPECT_FALSE(queue_.front().begun);
  EXPECT_EQ(queue_.on_sent(kMtu), Sent::kPart);
  EXPECT_TRUE(queue_.front().begun);
  EXPECT_EQ(queue_.front().psn, Psn(kFirst + 1));
  EXPECT_EQ(queue_.front().va, kVa + kMtu);
  EXPECT_EQ(queue_.front().remaining, 2 * kMtu - 200);
  EXPECT_EQ(queue_.on_sent(kMtu), Sent::kPart);
  EXPECT_EQ(queue_.on_sent(kMtu - 200), Sent::kAll);
  EXPECT_TRUE(queue_.front().atomic);
  EXPECT_FALSE(queue_.read_is_next());
  EXPECT_EQ(queue_.on_sent(0), Sent::kAll);
  EXPECT_TRUE(queue_.empty());
  EXPECT_FALSE(queue_.read_is_next());
}

TEST_F(ReplyQueueTest, AnEmptyReadIsOnePacket) {
  Reply reply = part(2, 0);
  EXPECT_EQ(reply.end(kMtu), Psn(kFirst + 3));
  queue_.push(reply);
  EXPECT_EQ(queue_.on_sent(0), Sent::kAll);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(ReplyQueueTest, NoMoreThanAgreedAreOwed) {
  EXPECT_FALSE(queue_.make_place(0));
  EXPECT_TRUE(queue_.make_place(2));
  queue_.push(read(4, 1));
  EXPECT_TRUE(queue_.make_place(2));
  queue_.push(read(5, 1));
  EXPECT_FALSE(queue_.make_place(2));
  EXPECT_EQ(queue_.on_sent(kMtu), Sent::kAll);
  EXPECT_TRUE(queue_.make_place(2));
}

TEST_F(ReplyQueueTest, WhatIsAnsweredAgainTakesNoPlaceAndGivesWay) {
  for (uint32_t i = 0; i < 5; i++) EXPECT_EQ(queue_.repeat(again(atomic(i)), false), Repeat::kQueued);
  EXPECT_TRUE(queue_.make_place(1));
  queue_.push(atomic(5));
  EXPECT_FALSE(queue_.make_place(1));
  EXPECT_TRUE(queue_.make_place(2)) << "full: the oldest goes";
  queue_.push(atomic(6));
  EXPECT_THAT(drain(), ElementsAre("1+1 again", "2+1 again", "3+1 again", "4+1 again", "5+1", "6+1"));
}

TEST_F(ReplyQueueTest, AskedAgainStandsWhereItsNumberBelongs) {
  queue_.push(read(4, 2));
  queue_.push(atomic(6));
  EXPECT_EQ(queue_.repeat(again(atomic(0)), false), Repeat::kQueued);
  EXPECT_EQ(queue_.repeat(again(read(2, 2)), false), Repeat::kQueued);
  EXPECT_EQ(queue_.repeat(again(atomic(1)), false), Repeat::kQueued);
  EXPECT_THAT(drain(), ElementsAre("0+1 again", "1+1 again", "2+2 again", "4+2", "6+1"));
}

TEST_F(ReplyQueueTest, AskedAgainIsQueuedOnce) {
  for (int i = 0; i < 10; i++) EXPECT_EQ(queue_.repeat(again(part(1, 3)), false), Repeat::kQueued);
  for (int i = 0; i < 10; i++) EXPECT_EQ(queue_.repeat(again(atomic(0)), false), Repeat::kQueued);
  EXPECT_THAT(drain(), ElementsAre("0+1 again", "1+3 again"));
}

TEST_F(ReplyQueueTest, NoPlaceForOneMore) {
  for (uint32_t i = 0; i < 6; i++) EXPECT_EQ(queue_.repeat(again(atomic(i)), false), Repeat::kQueued);
  EXPECT_EQ(queue_.repeat(again(atomic(6)), false), Repeat::kFull);
  EXPECT_EQ(queue_.repeat(again(atomic(5)), false), Repeat::kQueued) << "in its own place";
  EXPECT_EQ(drain().size(), 6u);
}

TEST_F(ReplyQueueTest, TheFirstAnswerIsStillOwedWhenItIsAskedForBeforeItLeft) {
  queue_.push(part(0, 2));
  EXPECT_EQ(queue_.repeat(again(part(0, 2)), false), Repeat::kQueued);
  EXPECT_FALSE(queue_.make_place(1));
  EXPECT_THAT(drain(), ElementsAre("0+2"));
}

TEST_F(ReplyQueueTest, TheRestComesAnyway) {
  queue_.push(part(0, 4));
  EXPECT_EQ(queue_.repeat(again(part(1, 3)), false), Repeat::kUnderWay);
  EXPECT_EQ(queue_.repeat(again(part(1, 2)), true), Repeat::kUnderWay);
  EXPECT_EQ(queue_.repeat(again(part(3, 1)), true), Repeat::kUnderWay);
  EXPECT_THAT(drain(), ElementsAre("0+4"));
}

TEST_F(ReplyQueueTest, AllOfItInPlaceOfTheRest) {
  queue_.push(part(0, 4));
  queue_.push(read(4, 1));
  EXPECT_EQ(queue_.on_sent(kMtu), Sent::kPart);
  EXPECT_EQ(queue_.on_sent(kMtu), Sent::kPart);
  EXPECT_EQ(queue_.repeat(again(part(0, 4)), false), Repeat::kQueued);
  EXPECT_EQ(queue_.front().va, kVa);
  EXPECT_FALSE(queue_.front().begun);
  EXPECT_THAT(drain(), ElementsAre("0+4", "4+1")) << "its rest is owed for the first time";
}

TEST_F(ReplyQueueTest, SeveralPartsGiveWayToAllOfIt) {
  for (const uint32_t from : {0u, 2u, 4u}) EXPECT_EQ(queue_.repeat(again(part(from, 1)), true), Repeat::kQueued);
  queue_.push(atomic(6));
  EXPECT_EQ(queue_.repeat(again(part(0, 6)), true), Repeat::kQueued);
  EXPECT_THAT(drain(), ElementsAre("0+6 again", "6+1"));
}

TEST_F(ReplyQueueTest, PartsThatOverlapBecomeOne) {
  EXPECT_EQ(queue_.repeat(again(part(2, 3)), true), Repeat::kQueued);
  EXPECT_EQ(queue_.repeat(again(part(1, 2)), true), Repeat::kQueued);  // begins earlier
  EXPECT_EQ(queue_.front().va, kVa + kMtu);
  EXPECT_EQ(queue_.front().remaining, 4 * kMtu);
  EXPECT_EQ(queue_.repeat(again(part(4, 3, 56)), true), Repeat::kQueued);  // ends later
  EXPECT_EQ(queue_.front().va, kVa + kMtu);
  EXPECT_EQ(queue_.front().remaining, 6 * kMtu - 56);
  EXPECT_THAT(drain(), ElementsAre("1+6 again"));
}

TEST_F(ReplyQueueTest, OnlyPartsOfOneReadAreJoined) {
  queue_.push(part(0, 3));
  EXPECT_EQ(queue_.repeat(again(read(2, 3)), true), Repeat::kUnderWay) << "other memory";
  Reply other_key = again(part(2, 3));
  other_key.rkey = 8;
  EXPECT_EQ(queue_.repeat(other_key, true), Repeat::kUnderWay);
  EXPECT_EQ(queue_.repeat(again(part(2, 3)), false), Repeat::kUnderWay) << "who goes back n asks for no parts";
  EXPECT_THAT(drain(), ElementsAre("0+3"));
}

TEST_F(ReplyQueueTest, GrowingKeepsWhatIsQueued) {
  for (uint32_t i = 0; i < 6; i++) EXPECT_EQ(queue_.repeat(again(atomic(i)), false), Repeat::kQueued);
  EXPECT_EQ(queue_.on_sent(0), Sent::kAll);
  EXPECT_EQ(queue_.repeat(again(atomic(6)), false), Repeat::kQueued);  // behind the end of the ring's memory
  queue_.grow(2);
  EXPECT_EQ(queue_.repeat(again(atomic(7)), false), Repeat::kFull) << "never less";
  queue_.grow(4);
  for (uint32_t i = 7; i < 9; i++) EXPECT_EQ(queue_.repeat(again(atomic(i)), false), Repeat::kQueued);
  EXPECT_EQ(queue_.repeat(again(atomic(9)), false), Repeat::kFull);
  EXPECT_EQ(drain().size(), 8u);
  queue_.push(atomic(0));
  queue_.start(kMtu);
  EXPECT_THAT(drain(), IsEmpty());
}

}  // namespace
}  // namespace uroce::test
