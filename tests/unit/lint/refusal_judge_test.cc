// Refusals and what follows them; responses to what was not sent.
#include "lint/refusal_judge.h"

#include <gtest/gtest.h>

#include "lint/unsent_judge.h"
#include "made_packet.h"

namespace uroce {
namespace {

using lint::RefusalJudge;
using test::Court;
using test::MadePacket;
using Reason = RefusalJudge::Reason;

/// PSN 100 to 109 were sent, and 102 acknowledged.
struct RefusalTest : testing::Test {
  RefusalTest() {
    court.send(100, 10);
    court.seen.numbers.acknowledge(Psn(102));
  }
  static test::PacketSpec response(uint32_t psn, uint64_t frame, uint8_t syndrome, Instant time = {}) {
    return {.opcode = kOpAcknowledge, .psn = psn, .frame = frame, .aeth = {.syndrome = syndrome}, .time = time};
  }
  /// The calls of a channel for a NAK.
  void nak(uint32_t psn, uint64_t frame) {
    const MadePacket packet(response(psn, frame, 0x60));
    if (judge.is_too_late(*packet)) return;
    judge.on_sequence_nak(*packet, std::nullopt);
    acknowledge(psn - 1, frame);
    judge.open_nak(*packet, una);
  }
  void rnr_nak(uint32_t psn, uint64_t frame, Instant time = {}) {
    const MadePacket packet(response(psn, frame, 0x20 | 13, time));  // 0.96 ms
    if (judge.is_too_late(*packet)) return;
    const bool again = judge.on_rnr_nak(*packet);
    acknowledge(psn - 1, frame);
    judge.open_rnr(*packet, una, again);
  }
  void acknowledge(uint32_t psn, uint64_t frame) {
    una = court.seen.numbers.acked;
    court.seen.numbers.acknowledge(Psn(psn));
    judge.on_acknowledged(Psn(psn), frame);
  }
  Reason back_to(uint32_t psn, uint64_t frame, Instant time = {}) {
    const MadePacket packet({.psn = psn, .frame = frame, .time = time});
    const Reason reason = judge.on_back(*packet);
    judge.on_sent(*packet, 1);
    return reason;
  }
  Court court;
  RefusalJudge judge{court.seen, court.report};
  Psn una;
};

TEST_F(RefusalTest, TheRequesterBeginsAgainWithWhatWasNamed) {
  EXPECT_EQ(back_to(105, 1), Reason::kNone);
  nak(105, 2);
  EXPECT_TRUE(judge.is_open());
  EXPECT_EQ(back_to(105, 3), Reason::kNak);
  EXPECT_FALSE(judge.is_open());
  acknowledge(109, 4);
  EXPECT_EQ(court.found(), "");
}

TEST_F(RefusalTest, BeginningBehindItIsAFaultOnceItIsAcknowledged) {
  nak(105, 2);
  EXPECT_EQ(back_to(107, 3), Reason::kNak);
  EXPECT_EQ(back_to(108, 4), Reason::kNak);
  EXPECT_EQ(court.found(), "");
  acknowledge(109, 5);
  EXPECT_EQ(court.found(), "retransmit-start@3");
}

TEST_F(RefusalTest, BeginningInFrontOfItIsATimeoutOrAFault) {
  nak(105, 2);
  EXPECT_EQ(back_to(103, 3), Reason::kNone);  // the oldest in doubt: its timer ran out
  EXPECT_EQ(court.found(), "");
  EXPECT_EQ(back_to(104, 4), Reason::kNak);
  EXPECT_EQ(court.found(), "retransmit-start@4");
}

TEST_F(RefusalTest, WhatWasRefusedCannotBeAcknowledged) {
  nak(105, 2);
  acknowledge(106, 3);
  EXPECT_EQ(court.found(), "<nak-unanswered@3");
  nak(108, 4);
  court.seen.sent.find(Psn(108))->repeated = true;  // a copy was under way
  acknowledge(109, 5);
  EXPECT_EQ(court.found(), "");
}

TEST_F(RefusalTest, OneRefusalAtATime) {
  nak(105, 2);
  nak(105, 3);
  EXPECT_EQ(court.found(), "<nak-repeated@3");
  back_to(105, 4);
  rnr_nak(105, 5);
  rnr_nak(105, 6);
  EXPECT_EQ(court.found(), "<nak-repeated@6");
  nak(106, 7);
  EXPECT_EQ(court.found(), "<nak-after-rnr@7 <nak-unanswered@7");
}

TEST_F(RefusalTest, ANakIsAboutWhatIsNotAcknowledgedAndOutOfOrder) {
  nak(102, 2);
  EXPECT_EQ(court.found(), "<nak-acked@2");
  nak(109, 3);
  EXPECT_EQ(court.found(), "<nak-psn@3");  // nothing behind it arrived
  back_to(109, 3);
  judge.on_sequence_nak(*MadePacket(response(104, 4, 0x60)), Psn(103));
  EXPECT_EQ(court.found(), "<nak-psn@4");
}

TEST_F(RefusalTest, ANakIsCalledByItsCode) {
  const struct {
    uint8_t syndrome;
    const char* name;
  } cases[] = {{0x2d, "RNR"},
               {0x60, "PSN sequence error"},
               {0x61, "invalid request"},
               {0x62, "remote access error"},
               {0x63, "remote operational error"},
               {0x64, "invalid RD request"},
               {0x65, "reserved code"},
               {0x7f, "reserved code"}};
  uint64_t frame = 1;
  for (const auto& c : cases) {
    EXPECT_TRUE(judge.is_too_late(*MadePacket(response(101, ++frame, c.syndrome))));
    EXPECT_EQ(court.said(), std::string("NAK \"") + c.name +
                                "\" for PSN 101 after PSN 102 was acknowledged; expected an ACK or silence");
  }
}

TEST_F(RefusalTest, AfterAnRnrNakTheRequesterWaits) {
  rnr_nak(105, 2, Instant{5'000'000});
  EXPECT_EQ(back_to(105, 3, Instant{6'000'000}), Reason::kRnrNak);
  EXPECT_EQ(court.found(), "");
  rnr_nak(105, 4, Instant{7'000'000});
  EXPECT_EQ(back_to(105, 5, Instant{7'900'000}), Reason::kRnrNak);
  EXPECT_EQ(court.found(), "rnr-early@5");
}

TEST_F(RefusalTest, CopiesThatAreRefusedTogetherAreWaitedForOnce) {
  court.seen.sent.find(Psn(105))->repeated = true;
  rnr_nak(105, 2, Instant{5'000'000});
  rnr_nak(105, 3, Instant{5'500'000});
  back_to(105, 4, Instant{6'100'000});
  EXPECT_EQ(court.found(), "");
}

TEST_F(RefusalTest, AfterAFatalNakThereIsSilence) {
  EXPECT_FALSE(judge.is_final());
  judge.on_fatal_nak(*MadePacket(response(105, 2, 0x62)));
  EXPECT_TRUE(judge.is_final());
  judge.on_after_final(*MadePacket(response(106, 3, 0x1f)));
  EXPECT_EQ(court.found(), "<after-fatal-nak@3");
}

struct UnsentTest : testing::Test {
  UnsentTest() { court.send(100, 10); }
  void ack(uint32_t psn, uint64_t frame) {
    judge.on_early(*MadePacket({.opcode = kOpAcknowledge, .psn = psn, .frame = frame}), Psn(psn),
                   lint::Rule::kAckUnsent);
  }
  Court court;
  lint::UnsentJudge judge{court.seen, court.report};
};

TEST_F(UnsentTest, NeighboursMayHaveBeenSwapped) {
  ack(110, 5);
  judge.on_request(*MadePacket({.psn = 110, .frame = 6}), 1);
  ack(111, 7);
  judge.on_request(*MadePacket({.psn = 111, .frame = 12}), 1);
  ack(113, 13);
  judge.on_request(*MadePacket({.psn = 112, .frame = 14}), 1);
  judge.on_request(*MadePacket({.psn = 113, .frame = 15}), 1);
  ack(114, 16);
  judge.on_request(*MadePacket({.psn = 114, .frame = 17, .time = Instant{300'000}}), 1);
  EXPECT_EQ(court.found(), "<ack-unsent@7 <ack-unsent@13 <ack-unsent@16");
}

TEST_F(UnsentTest, OneWaitsAtATime) {
  ack(110, 5);
  ack(111, 6);
  EXPECT_EQ(court.found(), "<ack-unsent@5");
  judge.finish();
  judge.finish();
  EXPECT_EQ(court.found(), "<ack-unsent@6");
}

TEST_F(UnsentTest, WhatWasSentBeforeTheCaptureMayBeAnswered) {
  judge.on_old(*MadePacket({.opcode = kOpAcknowledge, .psn = 50, .frame = 5}));
  EXPECT_EQ(court.found(), "");
  judge.on_old(*MadePacket({.opcode = kOpAcknowledge, .psn = 0xFF0000, .frame = 6}));
  EXPECT_EQ(court.found(), "<ack-unsent@6");
}

}  // namespace
}  // namespace uroce
