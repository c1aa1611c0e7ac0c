// Where a requester stands in its queue: what sending, answers and a loss do to the cursor and to the three numbers.
#include "transport/request_window.h"

#include <gtest/gtest.h>

#include <tuple>

namespace uroce::test {
namespace {

class RequestWindowTest : public testing::Test {
 protected:
  using Numbers = std::tuple<uint32_t, uint32_t, uint32_t>;  // una, next, high

  RequestWindowTest() { window_.start(Psn(0xFFFFFE)); }  // wraps in all of these

  void post(WrOpcode opcode, uint32_t packets) {
    SendWqe wqe;
    wqe.opcode = opcode;
    wqe.packets = packets;
    ring_.push(wqe);
  }
  void send() {
    SendWqe& wqe = window_.wqe();
    if (!wqe.started) {
      wqe.started = true;
      wqe.first_psn = window_.next();
    }
    window_.advance();
  }
  Numbers numbers() const { return {window_.una().value(), window_.next().value(), window_.high().value()}; }

  Ring<SendWqe> ring_{8};
  RequestWindow window_{ring_};
};

TEST_F(RequestWindowTest, StartsWithAllNumbersAlike) {
  EXPECT_EQ(numbers(), Numbers(0xFFFFFE, 0xFFFFFE, 0xFFFFFE));
  EXPECT_TRUE(window_.all_answered());
  EXPECT_TRUE(window_.at_end() && window_.at_head());
  EXPECT_EQ(window_.packets_in_flight(), 0u);
  EXPECT_FALSE(window_.outstanding(Psn(0xFFFFFE)));
}

TEST_F(RequestWindowTest, EachPacketMovesTheCursorAndOneTheNextWorkRequest) {
  post(WrOpcode::kSend, 3);
  post(WrOpcode::kSend, 1);
  EXPECT_FALSE(window_.at_end());
  send();
  EXPECT_EQ(numbers(), Numbers(0xFFFFFE, 0xFFFFFF, 0xFFFFFF));
  EXPECT_EQ(window_.packet(), 1u);
  EXPECT_TRUE(window_.at_head());
  send();
  send();
  EXPECT_EQ(numbers(), Numbers(0xFFFFFE, 1, 1));
  EXPECT_EQ(window_.packet(), 0u);
  EXPECT_FALSE(window_.at_head() || window_.at_end());
  send();
  EXPECT_TRUE(window_.at_end());
  EXPECT_EQ(window_.packets_in_flight(), 4u);
  EXPECT_EQ(window_.distance_to_cursor(), 4);
  for (const uint32_t psn : {0xFFFFFEu, 0xFFFFFFu, 0u, 1u}) EXPECT_TRUE(window_.outstanding(Psn(psn))) << psn;
  EXPECT_FALSE(window_.outstanding(Psn(0xFFFFFD)));
  EXPECT_FALSE(window_.outstanding(Psn(2)));
}

TEST_F(RequestWindowTest, AReadTakesTheNumbersOfItsResponses) {
  post(WrOpcode::kRdmaRead, 10);
  send();
  EXPECT_EQ(numbers(), Numbers(0xFFFFFE, 8, 8));
  EXPECT_TRUE(window_.at_end());
}

TEST_F(RequestWindowTest, ARewoundReadAsksForTheRest) {
  post(WrOpcode::kRdmaRead, 10);
  send();
  window_.on_answered(Psn(2));  // four responses came
  window_.rewind();
  EXPECT_EQ(numbers(), Numbers(2, 2, 8));
  EXPECT_EQ(window_.packet(), 4u);
  send();
  EXPECT_EQ(numbers(), Numbers(2, 8, 8));
}

TEST_F(RequestWindowTest, RewindingGoesBackToWhatHasNoAnswer) {
  post(WrOpcode::kSend, 3);
  post(WrOpcode::kSend, 2);
  for (int i = 0; i < 5; i++) send();
  window_.on_answered(Psn(0xFFFFFF));
  EXPECT_EQ(window_.packets_in_flight(), 4u);
  window_.rewind();
  EXPECT_EQ(numbers(), Numbers(0xFFFFFF, 0xFFFFFF, 3));
  EXPECT_TRUE(window_.at_head());
  EXPECT_EQ(window_.packet(), 1u);
  EXPECT_EQ(window_.distance_to_cursor(), 0);
  EXPECT_TRUE(window_.outstanding(Psn(2))) << "sent once, whatever the cursor does";
  send();
  EXPECT_EQ(numbers(), Numbers(0xFFFFFF, 0, 3));
}

TEST_F(RequestWindowTest, AnAnswerToTheFirstCopyOvertakesTheCursor) {
  post(WrOpcode::kSend, 4);
  for (int i = 0; i < 4; i++) send();
  window_.rewind();
  send();
  window_.on_answered(Psn(1));
  EXPECT_EQ(window_.distance_to_cursor(), -2);
  window_.rewind();
  EXPECT_EQ(numbers(), Numbers(1, 1, 2));
  EXPECT_EQ(window_.packet(), 3u);
}

TEST_F(RequestWindowTest, LocalOperationsTakeNoNumber) {
  post(WrOpcode::kLocalInv, 0);
  post(WrOpcode::kSend, 1);
  window_.skip();
  EXPECT_EQ(window_.wqe().opcode, WrOpcode::kSend);
  send();
  EXPECT_EQ(numbers(), Numbers(0xFFFFFE, 0xFFFFFF, 0xFFFFFF));
  window_.rewind();
  EXPECT_EQ(window_.wqe().opcode, WrOpcode::kLocalInv);
  EXPECT_EQ(window_.packet(), 0u);
}

TEST_F(RequestWindowTest, TakingTheHeadMovesTheCursorOnlyWhenItWasThere) {
  post(WrOpcode::kSend, 2);
  post(WrOpcode::kSend, 2);
  for (int i = 0; i < 3; i++) send();
  window_.pop_head();
  EXPECT_TRUE(window_.at_head());
  EXPECT_EQ(window_.packet(), 1u) << "in the second one, as before";
  window_.pop_head();
  EXPECT_TRUE(window_.at_end());
  EXPECT_EQ(window_.packet(), 0u);
}

TEST_F(RequestWindowTest, ResetForgetsWhatIsBehindTheCursorAndAbandonAllThatWasSent) {
  post(WrOpcode::kSend, 4);
  for (int i = 0; i < 4; i++) send();
  window_.rewind();
  send();
  EXPECT_EQ(numbers(), Numbers(0xFFFFFE, 0xFFFFFF, 2));
  RequestWindow other = window_;
  other.reset();
  EXPECT_EQ(other.high(), Psn(0xFFFFFF));
  EXPECT_TRUE(other.all_answered());
  window_.pop_head();
  window_.abandon();
  EXPECT_EQ(numbers(), Numbers(2, 2, 2));
  EXPECT_TRUE(window_.at_end());
}

}  // namespace
}  // namespace uroce::test
