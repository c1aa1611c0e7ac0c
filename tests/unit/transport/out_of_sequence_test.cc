// The responder's side of packet loss: one NAK, then silence until the missing packet comes.
#include <gmock/gmock.h>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(OutOfSequence, InOrderIsAcknowledged) {
  Rig rig;
  rig.receive(7);
  rig.arrive(send(kOpSendOnly, 0x100, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 7: success, 16 bytes"));
  EXPECT_EQ(rig.counted(), "rx_sends 1, sent_acks 1");
}

TEST(OutOfSequence, OneNakThenSilence) {
  Rig rig;
  for (uint64_t i = 1; i <= 4; i++) rig.receive(i);
  rig.arrive(send(kOpSendOnly, 0x101, 16));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 sequence error msn 0"));
  EXPECT_EQ(rig.counted(), "out_of_sequence 1, sent_naks 1");
  rig.arrive(send(kOpSendOnly, 0x102, 16));
  rig.arrive(send(kOpSendOnly, 0x103, 16));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.counted(), "out_of_sequence 2, rx_drop_after_nak 2");
  // The missing packet, and those behind it again.
  rig.arrive({send(kOpSendOnly, 0x100, 16), send(kOpSendOnly, 0x101, 16), send(kOpSendOnly, 0x102, 16)});
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000102 msn 3"));
  EXPECT_THAT(rig.completed(),
              ElementsAre("recv 1: success, 16 bytes", "recv 2: success, 16 bytes", "recv 3: success, 16 bytes"));
}

TEST(OutOfSequence, ASecondGapHasItsOwnNak) {
  Rig rig;
  for (uint64_t i = 1; i <= 4; i++) rig.receive(i);
  rig.arrive(send(kOpSendOnly, 0x101, 0));
  rig.arrive(send(kOpSendOnly, 0x100, 0));
  rig.sent();
  rig.arrive(send(kOpSendOnly, 0x103, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000101 sequence error msn 1"));
}

TEST(OutOfSequence, BorderOfTheDuplicateRegion) {
  // 2^23 - 1 ahead is the future; 2^23 ahead is the past.
  Rig rig;
  rig.receive(1);
  rig.arrive(send(kOpSendOnly, 0x100 + 0x7FFFFF, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 sequence error msn 0"));
  rig.arrive(send(kOpSendOnly, 0x100 + 0x800000, 0));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 0000ff msn 0"));
  EXPECT_EQ(rig.counted(), "out_of_sequence 1, duplicate_request 1, sent_acks 1, sent_naks 1");
}

TEST(OutOfSequence, SequenceNumbersWrap) {
  RigOptions options;
  options.attributes.rq_psn = Psn(0xFFFFFF);
  Rig rig(options);
  for (uint64_t i = 1; i <= 3; i++) rig.receive(i);
  rig.arrive(send(kOpSendOnly, 0xFFFFFF, 1));
  rig.arrive(send(kOpSendOnly, 0x000000, 2));
  rig.arrive(send(kOpSendOnly, 0xFFFFFF, 1));  // again
  rig.arrive(send(kOpSendOnly, 0x000002, 3));  // 1 is missing
  EXPECT_THAT(rig.sent(), ElementsAre("ACK ffffff msn 1", "ACK 000000 msn 2", "ACK 000000 msn 2",
                                      "NAK 000001 sequence error msn 2"));
}

TEST(OutOfSequence, NakIsNotHeldUpByTheAckThatWaits) {
  // Both in one burst: the NAK acknowledges everything before it, so one answer is enough.
  Rig rig;
  rig.receive(1);
  rig.arrive({send(kOpSendOnly, 0x100, 0), send(kOpSendOnly, 0x102, 0)});
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000101 sequence error msn 1"));
}

}  // namespace
}  // namespace uroce::test
