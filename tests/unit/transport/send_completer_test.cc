// How work requests end at the head of the queue.
#include "transport/send_completer.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"

#include <gmock/gmock.h>

#include "lone_qp.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant kTime{1'000'000'000};

MATCHER_P2(EndedAs, wr_id, cause, "") { return arg.wr_id == static_cast<uint64_t>(wr_id) && arg.cause == cause; }

class SendCompleterTest : public testing::Test {
 protected:
  explicit SendCompleterTest(uint32_t cq_size = 8)
      : side_(0x11, QpType::kRc, LossRecovery::kGoBackN, cq_size), env_{table_, side_.counters, side_} {}
  void push(uint64_t wr_id, bool signaled = true, WrOpcode opcode = WrOpcode::kRdmaWrite) {
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.flags = signaled ? kSendSignaled : 0;
    queue_.push(wr, QpType::kRc, 1024);
  }
  QpInit init() {
    QpInit init;
    init.send_cq = init.recv_cq = &side_.cq;
    return init;
  }

  LoneQp side_;
  SeededRandom random_{2};
  MemoryTable table_{4, random_};
  TransportEnv env_;
  QpContext context_{side_.qp, init(), 0x11, env_};
  SendQueue queue_{{.max_send_wr = 8, .max_recv_wr = 0, .max_send_sge = 1, .max_recv_sge = 0, .max_inline_data = 0}};
  RequestWindow window_{queue_.ring()};
  SendCompleter completer_{context_, queue_, window_};
};

TEST_F(SendCompleterTest, OneByOneInOrder) {
  push(1);
  push(2);
  EXPECT_EQ(completer_.complete(kTime), Outcome::kGoesOn);
  EXPECT_EQ(completer_.complete(kTime), Outcome::kGoesOn);
  EXPECT_THAT(side_.completions(), ElementsAre(EndedAs(1, Cause::kNone), EndedAs(2, Cause::kNone)));
  EXPECT_EQ(queue_.room(), 8u);
}

TEST_F(SendCompleterTest, UnsignalledOnesEndInSilenceUnlessTheyFail) {
  push(1, false);
  push(2, false);
  EXPECT_EQ(completer_.complete(kTime), Outcome::kGoesOn);
  EXPECT_THAT(side_.completions(), IsEmpty());
  EXPECT_EQ(completer_.fail(Cause::kTimeout, kTime), Outcome::kFailed);
  EXPECT_THAT(side_.completions(), ElementsAre(EndedAs(2, Cause::kTimeout)));
}

TEST_F(SendCompleterTest, FlushTakesEverything) {
  for (uint64_t id = 1; id <= 3; id++) push(id, id == 2);
  completer_.flush(kTime);
  EXPECT_THAT(side_.completions(),
              ElementsAre(EndedAs(1, Cause::kFlushed), EndedAs(2, Cause::kFlushed), EndedAs(3, Cause::kFlushed)));
  EXPECT_TRUE(window_.at_end());
}

TEST_F(SendCompleterTest, LocalOperationsThatAreDoneCompleteWhenTheyStandAtTheHead) {
  push(1);
  push(2, true, WrOpcode::kLocalInv);
  push(3);
  queue_.ring().at(1).done = true;
  EXPECT_EQ(completer_.settle(kTime), Outcome::kGoesOn);
  EXPECT_THAT(side_.completions(), IsEmpty());
  EXPECT_EQ(completer_.complete(kTime), Outcome::kGoesOn);
  EXPECT_EQ(completer_.settle(kTime), Outcome::kGoesOn);
  EXPECT_THAT(side_.completions(), ElementsAre(EndedAs(1, Cause::kNone), EndedAs(2, Cause::kNone)));
}

TEST_F(SendCompleterTest, ALocalErrorWaitsForWhatIsBeforeIt) {
  push(1);
  push(2);
  window_.skip();
  EXPECT_EQ(completer_.set_local_error(Cause::kLocalKey, kTime), Outcome::kGoesOn);
  EXPECT_TRUE(completer_.has_local_error());
  EXPECT_THAT(side_.completions(), IsEmpty());
  EXPECT_EQ(completer_.complete(kTime), Outcome::kGoesOn);
  EXPECT_EQ(completer_.settle(kTime), Outcome::kFailed);
  EXPECT_THAT(side_.completions(), ElementsAre(EndedAs(1, Cause::kNone), EndedAs(2, Cause::kLocalKey)));
  EXPECT_FALSE(completer_.has_local_error());
}

TEST_F(SendCompleterTest, ALocalErrorAtTheHeadFailsAtOnce) {
  push(1);
  EXPECT_EQ(completer_.set_local_error(Cause::kLocalKey, kTime), Outcome::kFailed);
}

TEST_F(SendCompleterTest, AForgottenLocalErrorIsNone) {
  push(1);
  push(2);
  window_.skip();
  EXPECT_EQ(completer_.set_local_error(Cause::kLocalKey, kTime), Outcome::kGoesOn);
  completer_.forget_local_error();
  EXPECT_EQ(completer_.complete(kTime), Outcome::kGoesOn);
  EXPECT_EQ(completer_.settle(kTime), Outcome::kGoesOn);
}

/// The program got the new key when it posted the bind.
TEST_F(SendCompleterTest, AWindowIsToldThatItWasNotBound) {
  int user = 0;
  const uint32_t key = table_.allocate_window(1, false, &user);
  ASSERT_NE(key, 0u);
  for (uint32_t i = 1; i <= 3; i++) {
    SendWr wr;
    wr.wr_id = i;
    wr.opcode = WrOpcode::kBindMw;
    wr.bind = {key + i - 1, key + i, 0, 0, 0, 0};
    queue_.push(wr, QpType::kRc, 1024);
  }
  EXPECT_EQ(completer_.complete(kTime), Outcome::kGoesOn);
  EXPECT_THAT(side_.bind_errors, IsEmpty());
  EXPECT_EQ(completer_.fail(Cause::kBindRefused, kTime), Outcome::kFailed);
  EXPECT_THAT(side_.bind_errors, ElementsAre(LoneQp::BindError{&user, key + 2, key}));
  completer_.flush(kTime);
  EXPECT_THAT(side_.bind_errors,
              ElementsAre(LoneQp::BindError{&user, key + 2, key}, LoneQp::BindError{&user, key + 3, key}));
}

class SendCompleterWithLittleRoom : public SendCompleterTest {
 protected:
  SendCompleterWithLittleRoom() : SendCompleterTest(1) {}
};

TEST_F(SendCompleterWithLittleRoom, ACompletionWithoutRoomIsAFailure) {
  push(1);
  push(2);
  EXPECT_EQ(completer_.complete(kTime), Outcome::kGoesOn);
  EXPECT_EQ(completer_.complete(kTime), Outcome::kFailed);
  EXPECT_THAT(side_.events, ElementsAre(AsyncEvent::kQpFatal));
}

}  // namespace
}  // namespace uroce::test
