#include "uroce/psn.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(Psn, KeepsTwentyFourBits) {
  EXPECT_EQ(Psn(0x1234567).value(), 0x234567u);
  EXPECT_EQ(Psn(0xFFFFFFFF).value(), 0xFFFFFFu);
}

TEST(Psn, WrapsForwardsAndBackwards) {
  EXPECT_EQ(Psn(0xFFFFFF) + 1, Psn(0));
  EXPECT_EQ(Psn(0xFFFFF0) + 0x20, Psn(0x10));
  EXPECT_EQ(Psn(0) - 1, Psn(0xFFFFFF));
  EXPECT_EQ(Psn(5) - 10, Psn(0xFFFFFB));
  Psn p(0xFFFFFE);
  p += 3;
  EXPECT_EQ(p, Psn(1));
}

TEST(Psn, DistanceIsSigned) {
  EXPECT_EQ(distance(Psn(10), Psn(10)), 0);
  EXPECT_EQ(distance(Psn(10), Psn(13)), 3);
  EXPECT_EQ(distance(Psn(13), Psn(10)), -3);
  EXPECT_EQ(distance(Psn(0xFFFFFD), Psn(2)), 5);
  EXPECT_EQ(distance(Psn(2), Psn(0xFFFFFD)), -5);
}

TEST(Psn, HalfTheCircleIsTheBorder) {
  EXPECT_EQ(distance(Psn(0), Psn(0x7FFFFF)), 0x7FFFFF);
  EXPECT_EQ(distance(Psn(0), Psn(0x800000)), -0x800000);
  EXPECT_EQ(distance(Psn(0x800000), Psn(0)), -0x800000);
  EXPECT_TRUE(Psn(0).before(Psn(0x7FFFFF)));
  EXPECT_FALSE(Psn(0).before(Psn(0x800000)));
}

TEST(Psn, BeforeHoldsAllRoundTheCircle) {
  for (uint32_t start = 0; start <= Psn::kMask; start += 0x10001) {
    const Psn p(start);
    for (const uint32_t step : {1u, 2u, 0xFFFFu, 0x7FFFFEu, 0x7FFFFFu}) {
      EXPECT_TRUE(p.before(p + step)) << start << "+" << step;
      EXPECT_FALSE((p + step).before(p)) << start << "+" << step;
      EXPECT_EQ(distance(p, p + step), static_cast<int32_t>(step));
      EXPECT_EQ(distance(p, p - step), -static_cast<int32_t>(step));
    }
    EXPECT_FALSE(p.before(p));
  }
}

}  // namespace
}  // namespace uroce
