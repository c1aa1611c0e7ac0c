// An ACK may wait a moment for the program's own answer (doc/adr/0006): never long, never out of order.
#include <gmock/gmock.h>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class DelayedAck : public testing::Test {
 protected:
  static RigOptions options() {
    RigOptions o;
    o.engine.ack_delay = microseconds(20);
    return o;
  }
  /// One message in, and the program's answer out, as in ping-pong.
  void exchange() {
    rig_.receive(psn_);
    rig_.arrive(send(kOpSendOnly, psn_, 4));
    rig_.post(rig_.send_wr(4, answers_));
    rig_.sent();
    rig_.arrive(ack(0x200 + answers_, answers_ + 1));
    psn_++;
    answers_++;
    rig_.completed();
    rig_.sent();
  }

  Rig rig_{options()};
  uint32_t psn_ = 0x100;
  uint32_t answers_ = 0;
};

TEST_F(DelayedAck, AtFirstNothingIsDelayed) {
  rig_.receive(1);
  rig_.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 1"));
}

TEST_F(DelayedAck, LeavesBehindTheAnswer) {
  for (int i = 0; i < 4; i++) exchange();
  rig_.receive(1);
  rig_.arrive(send(kOpSendOnly, psn_, 4));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.post(rig_.send_wr(4, 9));
  EXPECT_THAT(rig_.sent(), ElementsAre("SEND_ONLY 000204 bytes 4 ack", "ACK 000104 msn 5"));
}

TEST_F(DelayedAck, LeavesWhenTheTimeIsOver) {
  for (int i = 0; i < 4; i++) exchange();
  rig_.receive(1);
  rig_.arrive(send(kOpSendOnly, psn_, 4));
  EXPECT_LE(rig_.engine().next_timeout(), rig_.now() + microseconds(20));
  rig_.advance(microseconds(19));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.advance(microseconds(1));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000104 msn 5"));
  // The program did not answer, so the next ACK is not delayed.
  rig_.receive(2);
  rig_.arrive(send(kOpSendOnly, psn_ + 1, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000105 msn 6"));
}

TEST_F(DelayedAck, ASecondMessageEndsIt) {
  for (int i = 0; i < 4; i++) exchange();
  rig_.receive(1);
  rig_.receive(2);
  rig_.arrive(send(kOpSendOnly, psn_, 4));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  rig_.arrive(send(kOpSendOnly, psn_ + 1, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000105 msn 6"));
}

TEST_F(DelayedAck, AReadTakesItAlong) {
  for (int i = 0; i < 4; i++) exchange();
  rig_.receive(1);
  rig_.arrive(send(kOpSendOnly, psn_, 4));
  rig_.arrive(read(psn_ + 1, rig_.remote_va(), rig_.rkey(), 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("READ_RESPONSE_ONLY 000105 msn 6 bytes 4"));
  rig_.advance(milliseconds(1));
  EXPECT_THAT(rig_.sent(), IsEmpty());
}

TEST_F(DelayedAck, ANakEndsIt) {
  for (int i = 0; i < 4; i++) exchange();
  rig_.receive(1);
  rig_.arrive(send(kOpSendOnly, psn_, 4));
  rig_.arrive(send(kOpSendOnly, psn_ + 2, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000105 sequence error msn 5"));
}

TEST_F(DelayedAck, ADuplicateEndsIt) {
  for (int i = 0; i < 4; i++) exchange();
  rig_.receive(1);
  rig_.arrive(send(kOpSendOnly, psn_, 4));
  rig_.arrive(send(kOpSendOnly, psn_, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000104 msn 5"));
}

TEST_F(DelayedAck, LeavesBeforeTheProgramsErrorResetOrDestruction) {
  for (const int how : {0, 1, 2}) {
    Rig rig(options());
    for (uint32_t i = 0; i < 4; i++) {
      rig.receive(i);
      rig.arrive(send(kOpSendOnly, 0x100 + i, 4));
      rig.post(rig.send_wr(4, i));
      rig.arrive(ack(0x200 + i, i + 1));
    }
    rig.receive(1);
    rig.arrive(send(kOpSendOnly, 0x104, 4));
    rig.sent();
    if (how == 0) rig.modify(QpState::kErr);
    if (how == 1) rig.modify(QpState::kReset);
    if (how == 2) rig.engine().destroy_qp(&rig.qp(), rig.now());
    EXPECT_THAT(rig.sent(), ElementsAre("ACK 000104 msn 5")) << how;
  }
}

TEST_F(DelayedAck, DelayZeroSwitchesItOff) {
  RigOptions off = options();
  off.engine.ack_delay = Duration{0};
  Rig rig(off);
  for (uint32_t i = 0; i < 6; i++) {
    rig.receive(i);
    rig.sent();
    rig.arrive(send(kOpSendOnly, 0x100 + i, 4));
    EXPECT_EQ(rig.sent().size(), 1u);
    rig.post(rig.send_wr(4, i));
    rig.arrive(ack(0x200 + i, i + 1));
  }
}

}  // namespace
}  // namespace uroce::test
