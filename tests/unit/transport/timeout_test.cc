// The local ACK timeout and the retry budget.
#include <gmock/gmock.h>

#include "rig.h"
#include "transport/timing.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Timeout, CodesAsTime) {
  EXPECT_EQ(ack_timeout(0), Duration{0});
  EXPECT_EQ(ack_timeout(1), nanoseconds(8'192));
  EXPECT_EQ(ack_timeout(8), nanoseconds(1'048'576));
  EXPECT_EQ(ack_timeout(14), nanoseconds(67'108'864));
  EXPECT_EQ(ack_timeout(31), nanoseconds(8'796'093'022'208));
}

TEST(Timeout, ExactlyRetryCntRetransmissionsThenAnError) {
  for (uint8_t retry_cnt = 0; retry_cnt <= 7; retry_cnt++) {
    RigOptions options;
    options.attributes.retry_cnt = retry_cnt;
    Rig rig(options);
    rig.post(rig.send_wr(16, 1));
    rig.post(rig.send_wr(16, 2));
    rig.receive(3);
    EXPECT_EQ(rig.sent().size(), 2u);
    for (int i = 0; i < retry_cnt; i++) {
      const int64_t patience = i == 0 ? 1 : i == 1 ? 2 : 4;  // in timeouts, within what the specification allows
      rig.advance(nanoseconds(patience * 1'048'576 - 1));
      EXPECT_THAT(rig.sent(), IsEmpty());
      rig.advance(nanoseconds(1));
      EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 16 ack", "SEND_ONLY 000201 bytes 16 ack"));
    }
    EXPECT_THAT(rig.completed(), IsEmpty());
    rig.advance(nanoseconds((retry_cnt == 0 ? 1 : retry_cnt == 1 ? 2 : 4) * 1'048'576));
    EXPECT_THAT(rig.sent(), IsEmpty());
    EXPECT_THAT(rig.completed(), ElementsAre("send 1: transport retry counter exceeded", "send 2: work request flushed",
                                             "recv 3: work request flushed"));
    EXPECT_EQ(rig.qp().state(), QpState::kErr);
    EXPECT_EQ(rig.observer().error_completions.at(0).completion.cause, Cause::kTimeout);
  }
}

TEST(Timeout, Counted) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  rig.advance(milliseconds(2));
  EXPECT_EQ(rig.counted(), "local_ack_timeout_err 1, retransmits 1");
}

TEST(Timeout, ZeroWaitsForEver) {
  RigOptions options;
  options.attributes.timeout = 0;
  Rig rig(options);
  rig.post(rig.send_wr(16, 1));
  rig.sent();
  rig.advance(milliseconds(3'600'000));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.arrive(ack(0x200, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: success"));
}

TEST(Timeout, ProgressStartsItAfresh) {
  Rig rig;  // retry_cnt 3
  for (uint64_t i = 1; i <= 3; i++) rig.post(rig.send_wr(16, i));
  rig.sent();
  rig.advance(microseconds(1'000));
  rig.arrive(ack(0x200, 1));
  rig.advance(microseconds(1'000));
  EXPECT_THAT(rig.sent(), IsEmpty());
  rig.advance(microseconds(49));
  EXPECT_EQ(rig.sent().size(), 2u);
}

TEST(Timeout, ProgressRestoresTheBudget) {
  Rig rig;  // retry_cnt 3
  for (uint32_t i = 0; i < 4; i++) {
    rig.post(rig.send_wr(16, i));
    for (int n = 0; n < 3; n++) rig.advance(milliseconds(2));
    rig.arrive(ack(0x200 + i, i + 1));
    EXPECT_EQ(rig.completed().size(), 1u);
  }
}

TEST(Timeout, NothingPendingNoTimer) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  rig.arrive(ack(0x200, 1));
  rig.sent();
  rig.counted();
  rig.advance(milliseconds(100));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "");
}

TEST(Timeout, AReadIsAskedForFromWhereItStands) {
  Rig rig;
  rig.post(rig.read_wr(1000, 1));
  rig.arrive(read_response(kOpReadResponseFirst, 0x200, 256));
  rig.sent();
  rig.advance(milliseconds(2));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_REQUEST 000201 va 1100 len 744 ack"));
}

TEST(Timeout, AnAtomicIsAskedForAgain) {
  Rig rig;
  rig.post(rig.atomic_wr(WrOpcode::kFetchAdd, 1));
  EXPECT_THAT(rig.sent(), ElementsAre("FETCH_ADD 000200 ack"));
  rig.advance(milliseconds(2));
  EXPECT_THAT(rig.sent(), ElementsAre("FETCH_ADD 000200 ack"));
}

/// The time counts from when a packet leaves: a full port is no sign of a lost peer.
TEST(Timeout, ARetransmissionThatCannotLeaveCostsNothing) {
  Rig rig;  // retry_cnt 3
  rig.post(rig.send_wr(16, 1));
  rig.post(rig.send_wr(16, 2));
  rig.sent();
  rig.port().set_tx_room(0);
  for (int i = 0; i < 20; i++) rig.advance(milliseconds(2));
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.qp().requester()->retry_timer().retries_left(), 2);
  rig.arrive(ack(0x200, 1));  // the first answer was only late; the second packet still has to be sent again
  for (int i = 0; i < 20; i++) rig.advance(milliseconds(2));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: success"));
  rig.port().set_tx_room(64);
  rig.turn();
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000201 bytes 16 ack"));
  rig.advance(nanoseconds(1'048'576));
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000201 bytes 16 ack"));
}

TEST(Timeout, DestroyedQpHasNoTimer) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  rig.engine().destroy_qp(&rig.qp(), rig.now());
  rig.sent();
  rig.advance(milliseconds(100));
  EXPECT_THAT(rig.sent(), IsEmpty());
}

TEST(Timeout, ResetStopsTheTimer) {
  Rig rig;
  rig.post(rig.send_wr(16, 1));
  ASSERT_EQ(rig.modify(QpState::kReset), ModifyResult::kOk);
  rig.sent();
  rig.counted();
  rig.advance(milliseconds(100));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.counted(), "");
}

TEST(Timeout, APeerWhoseAddressNobodyKnows) {
  RigOptions options;
  options.resolved = false;
  Rig rig(options);
  rig.post(rig.send_wr(16, 1));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "tx_neighbour_unresolved 1");
  for (int i = 0; i < 4; i++) rig.advance(milliseconds(5));
  EXPECT_THAT(rig.completed(), ElementsAre("send 1: transport retry counter exceeded"));
  EXPECT_EQ(rig.observer().error_completions.at(0).completion.cause, Cause::kPeerUnresolved);
}

TEST(Timeout, SentAtOnceWhenTheAddressBecomesKnown) {
  RigOptions options;
  options.resolved = false;
  Rig rig(options);
  rig.post(rig.send_wr(16, 1));
  rig.resolve_peer();
  EXPECT_THAT(rig.sent(), ElementsAre("SEND_ONLY 000200 bytes 16 ack"));
  EXPECT_EQ(rig.qp().requester()->retry_timer().retries_left(), 3);
}

}  // namespace
}  // namespace uroce::test
