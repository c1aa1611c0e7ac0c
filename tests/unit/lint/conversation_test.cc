// What a tap saw of a conversation: numbers, the path MTU, what was sent, READs by PSN.
#include "lint/conversation.h"

#include <gtest/gtest.h>

#include "made_packet.h"

namespace uroce {
namespace {

using lint::Numbers;
using lint::Read;
using test::Court;
using test::MadePacket;

MadePacket read_request(uint32_t psn, uint32_t length) {
  return MadePacket({.opcode = kOpReadRequest, .psn = psn, .reth = {.dma_length = length}});
}

TEST(Numbers, BeginSomewhereOrWhereItWasAgreed) {
  Numbers numbers;
  EXPECT_FALSE(numbers.started());
  numbers.start(Psn(7), Numbers::Beginning::kAnywhere);
  numbers.leave_start();
  EXPECT_TRUE(numbers.started() && !numbers.from_start() && !numbers.awaits_start());
  numbers.start(Psn(7), Numbers::Beginning::kAgreed);
  EXPECT_TRUE(numbers.from_start() && numbers.awaits_start());
  numbers.leave_start();
  EXPECT_TRUE(numbers.from_start() && !numbers.awaits_start());
}

TEST(Numbers, FarIsFarOfBothEnds) {
  Numbers numbers;
  numbers.start(Psn(0xFFFFF0), Numbers::Beginning::kAnywhere);
  numbers.next = Psn(0x10);
  EXPECT_FALSE(numbers.is_far(Psn(0x10 + 16384)));
  EXPECT_TRUE(numbers.is_far(Psn(0x10 + 16385)));
  EXPECT_FALSE(numbers.is_far(Psn(0xFFFFF0 - 16384)));
  EXPECT_TRUE(numbers.is_far(Psn(0xFFFFF0 - 16385)));
}

TEST(Numbers, TheBeginningReachesBackUntilSomethingIsAcknowledged) {
  Numbers numbers;
  numbers.start(Psn(100), Numbers::Beginning::kAnywhere);
  numbers.extend_back(Psn(90));
  EXPECT_EQ(numbers.acked, Psn(90));
  numbers.acknowledge(Psn(95));
  numbers.acknowledge(Psn(92));
  numbers.extend_back(Psn(80));
  EXPECT_EQ(numbers.first, Psn(80));
  EXPECT_EQ(numbers.acked, Psn(96));
}

TEST(SentRequests, AReadTakesAPsnForEachResponse) {
  Court court;
  const MadePacket read = read_request(100, 1025);
  EXPECT_FALSE(court.seen.sent.span_is_known(*read));
  EXPECT_EQ(court.seen.sent.span_of(*read), 1u);
  EXPECT_EQ(court.seen.sent.longest_span_of(*read), 5u);
  court.seen.learn_mtu(1000);  // not a path MTU
  court.seen.learn_mtu(512);
  court.seen.learn_mtu(1024);
  EXPECT_EQ(court.seen.sent.mtu(), 512u);
  EXPECT_EQ(court.seen.sent.span_of(*read), 3u);
}

TEST(SentRequests, TheNewestReadEndsWhereThePathMtuSays) {
  Court court;
  const MadePacket request = read_request(100, 4096);
  court.send(*request);
  Read& read = court.ask(100, 1);
  read.asked.length = 4096;
  read.span_state = Read::Span::kGuessed;
  court.seen.numbers.tip_open = true;
  court.seen.learn_mtu(1024);
  EXPECT_EQ(court.seen.numbers.next, Psn(104));
  EXPECT_FALSE(court.seen.numbers.tip_open);
  EXPECT_EQ(read.span, 4u);
  EXPECT_EQ(read.span_state, Read::Span::kLate);
  EXPECT_EQ(court.seen.sent.before(Psn(104)), &court.seen.sent.last());
}

/// A capture may begin between a request and its answer.
TEST(Conversation, AtItsBeginningAnAnswerTellsWhatWasSent) {
  Court court;
  court.send(100, 1);
  court.seen.learn_frontier(Psn(105));
  EXPECT_EQ(court.seen.numbers.next, Psn(105));
  court.seen.learn_frontier(Psn(103));
  EXPECT_EQ(court.seen.numbers.next, Psn(105));
  court.seen.learn_frontier(Psn(105 + lint::kFar));
  EXPECT_EQ(court.seen.numbers.next, Psn(105)) << "of another life";
  court.seen.numbers.tip_open = true;
  court.seen.learn_frontier(Psn(107));
  EXPECT_EQ(court.seen.numbers.next, Psn(105)) << "a READ that may take more PSNs ends there or earlier";
  court.seen.numbers.tip_open = false;
  court.send(105, 62);
  court.seen.learn_frontier(Psn(200));
  EXPECT_EQ(court.seen.numbers.next, Psn(200)) << "after 63 requests";
  court.send(200, 1);
  court.seen.learn_frontier(Psn(300));
  EXPECT_EQ(court.seen.numbers.next, Psn(201)) << "after 64 all would have been seen";
}

TEST(Conversation, WhoseBeginningWasSeenIsToldNothing) {
  Court court;
  court.seen.numbers.start(Psn(100), Numbers::Beginning::kAgreed);
  court.send(100, 1);
  court.seen.learn_frontier(Psn(105));
  EXPECT_EQ(court.seen.numbers.next, Psn(101));
}

TEST(Reads, AreFoundByEachOfTheirPsns) {
  Court court;
  court.ask(100, 4);
  court.ask(110, 2);
  court.ask(104, 2);  // out of order
  const lint::Reads& reads = court.seen.sent.reads();
  EXPECT_EQ(reads.find(Psn(103))->psn, Psn(100));
  EXPECT_EQ(reads.find(Psn(105))->psn, Psn(104));
  EXPECT_EQ(reads.find(Psn(106)), nullptr);
  EXPECT_EQ(reads.all()[1].psn, Psn(104));
  EXPECT_EQ(reads.waiting(), 3u);
}

TEST(Reads, TheOldestInDoubtIsTheFirstThatIsNotAnswered) {
  Court court;
  court.ask(100, 4).answered = 4;
  court.ask(104, 4).answered = 1;
  EXPECT_EQ(court.seen.oldest_in_doubt(), Psn(100));  // nothing was acknowledged
  court.seen.numbers.acknowledge(Psn(107));
  EXPECT_EQ(court.seen.oldest_in_doubt(), Psn(105));
  court.seen.sent.find_read(Psn(104))->answered = 4;
  EXPECT_EQ(court.seen.oldest_in_doubt(), Psn(108));
  EXPECT_TRUE(court.seen.sent.reads().open().empty());
}

TEST(Retries, TheNewestAreKnown) {
  lint::Retries retries;
  for (uint32_t i = 0; i < 18; i++) retries.add(Psn(100 + i), Psn(200 + i));
  EXPECT_EQ(retries.count(), 18u);
  EXPECT_TRUE(retries.started_at(Psn(114), 4));
  EXPECT_FALSE(retries.started_at(Psn(113), 4));
  EXPECT_TRUE(retries.started_at(Psn(102), lint::Retries::kKept));
  EXPECT_FALSE(retries.started_at(Psn(101), lint::Retries::kKept));
  EXPECT_TRUE(retries.ended_at(Psn(202)));
  EXPECT_FALSE(retries.ended_at(Psn(201)));
}

}  // namespace
}  // namespace uroce
