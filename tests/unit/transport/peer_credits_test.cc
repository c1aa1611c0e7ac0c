// Which messages may be sent, after what the peer's ACKs said of its receives.
#include "transport/peer_credits.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

/// Code 5 stands for 6 receives, code 0 for none.
Aeth grant(uint32_t msn, uint8_t code) { return {.syndrome = make_syndrome(AethKind::kAck, code), .msn = msn}; }

TEST(PeerCredits, NothingIsForbiddenBeforeTheFirstAck) {
  const PeerCredits credits;
  EXPECT_TRUE(credits.allow(1));
  EXPECT_TRUE(credits.allow(0xFFFFFF));
}

TEST(PeerCredits, CountFromTheMessagesThatThePeerHas) {
  PeerCredits credits;
  credits.learn(grant(10, 5));
  EXPECT_TRUE(credits.allow(16));
  EXPECT_FALSE(credits.allow(17));
  credits.learn(grant(11, 0));
  EXPECT_TRUE(credits.allow(11));
  EXPECT_FALSE(credits.allow(12));
}

TEST(PeerCredits, AreNumbersOf24Bits) {
  PeerCredits credits;
  credits.learn(grant(0xFFFFFE, 5));
  EXPECT_TRUE(credits.allow(4));
  EXPECT_FALSE(credits.allow(5));
  EXPECT_TRUE(credits.allow(0xFFFFFF));
}

TEST(PeerCredits, APeerMayStopGivingThem) {
  PeerCredits credits;
  credits.learn(grant(10, 0));
  ASSERT_FALSE(credits.allow(11));
  credits.learn(grant(10, kCreditsInvalid));
  EXPECT_TRUE(credits.allow(11));
}

TEST(PeerCredits, OfAnotherConnectionAreForgotten) {
  PeerCredits credits;
  credits.learn(grant(10, 0));
  credits.reset();
  EXPECT_TRUE(credits.allow(11));
}

}  // namespace
}  // namespace uroce::test
