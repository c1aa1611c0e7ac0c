// When a uroced that programs started for themselves ends, in virtual time.
#include "uroced/while_needed.h"

#include <gtest/gtest.h>

#include <random>

#include "host/way_out.h"

namespace uroce::daemon {
namespace {

constexpr Instant at(int64_t ms) { return Instant{milliseconds(ms).ns}; }

TEST(Need, WithoutAnybodyItEndsAfterAWhile) {
  Need need(at(0));
  EXPECT_FALSE(need.is_over(at(0), false, std::nullopt));
  EXPECT_FALSE(need.is_over(at(4999), false, std::nullopt));
  EXPECT_TRUE(need.is_over(at(5000), false, std::nullopt));
}

TEST(Need, ItStaysAsLongAsThereAreProgramsAndAWhileMore) {
  Need need(at(0));
  EXPECT_FALSE(need.is_over(at(3'600'000), true, std::nullopt));
  EXPECT_FALSE(need.is_over(at(3'604'999), false, std::nullopt));
  EXPECT_TRUE(need.is_over(at(3'605'000), false, std::nullopt));
}

/// A program that found it, and has not joined yet.
TEST(Need, WhoHasJustAskedIsWaitedFor) {
  Need need(at(0));
  EXPECT_FALSE(need.is_over(at(6000), false, milliseconds(10)));
  EXPECT_FALSE(need.is_over(at(10'999), false, std::nullopt));
  EXPECT_TRUE(need.is_over(at(11'000), false, std::nullopt));
}

TEST(Need, WhoAskedLongAgoIsNot) {
  Need need(at(0));
  EXPECT_TRUE(need.is_over(at(6000), false, kWayOutLinger));
}

/// Over random histories: never while there is a program, nor before kWayOutLinger after the last of them; and then at
/// the first look.
TEST(Need, EndsWhenAndOnlyWhenNobodyNeededItForAWhile) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; round++) {
    Need need(at(0));
    int64_t last_ms = 0;
    for (int64_t now_ms = 0; now_ms < 60'000; now_ms += 1 + random() % 900) {
      const bool programs = random() % 8 == 0;
      const bool asked = random() % 16 == 0;
      if (programs || asked) last_ms = now_ms;
      const bool over = need.is_over(at(now_ms), programs, asked ? std::optional(milliseconds(3)) : std::nullopt);
      ASSERT_EQ(over, now_ms - last_ms >= 5000) << "round " << round << " at " << now_ms;
      if (over) break;
    }
  }
}

}  // namespace
}  // namespace uroce::daemon
