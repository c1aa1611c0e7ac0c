// Guesses have a budget; keys that are known, right or wrong, do not count as guesses.
#include "transport/key_guard.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr uint32_t kGoodKey = 1;
constexpr uint32_t kWrongKey = 1000;  // the first of many
constexpr uint32_t kNewKey = 1'000'000;

/// Uses up the budget; true when only the last guess was reported.
bool guess_all(KeyGuard& guard, Instant now) {
  for (uint32_t i = 0; i + 1 < KeyGuard::kGuesses; i++) {
    EXPECT_TRUE(guard.allows(kWrongKey + i, now)) << i;
    EXPECT_FALSE(guard.on_wrong(kWrongKey + i, now)) << i;
  }
  const uint32_t last = kWrongKey + KeyGuard::kGuesses - 1;
  return guard.allows(last, now) && guard.on_wrong(last, now);
}

TEST(KeyGuard, NothingNewIsLookedAtWhenTheBudgetIsUsedUp) {
  KeyGuard guard;
  EXPECT_TRUE(guess_all(guard, kStart));
  EXPECT_FALSE(guard.allows(kNewKey, kStart));
  EXPECT_FALSE(guard.allows(kNewKey, kStart + milliseconds(999)));
}

TEST(KeyGuard, OneMoreASecond) {
  KeyGuard guard;
  guess_all(guard, kStart);
  for (int second = 1; second <= 3; second++) {
    const Instant now = kStart + milliseconds(1000 * second);
    EXPECT_TRUE(guard.allows(kNewKey + static_cast<uint32_t>(second), now));
    EXPECT_FALSE(guard.on_wrong(kNewKey + static_cast<uint32_t>(second), now)) << "said once";
    EXPECT_FALSE(guard.allows(kNewKey, now));
  }
}

TEST(KeyGuard, FullAgainItIsNewsAgain) {
  KeyGuard guard;
  guess_all(guard, kStart);
  const Instant later = kStart + milliseconds(1000) * KeyGuard::kGuesses;
  EXPECT_TRUE(guard.allows(kNewKey, later));
  guard.reset();
  EXPECT_TRUE(guess_all(guard, later));
  KeyGuard other;
  guess_all(other, kStart);
  EXPECT_TRUE(other.allows(kNewKey, later));
  for (uint32_t i = 0; i + 1 < KeyGuard::kGuesses; i++) EXPECT_FALSE(other.on_wrong(kNewKey + i, later));
  EXPECT_TRUE(other.on_wrong(kNewKey + KeyGuard::kGuesses, later));
}

TEST(KeyGuard, TheLastSixteenGoodKeysGoOn) {
  KeyGuard guard;
  for (uint32_t i = 0; i < 17; i++) guard.on_good(kGoodKey + i);
  for (uint32_t i = 16; i > 0; i--) guard.on_good(kGoodKey + i);  // known ones take no further place
  guess_all(guard, kStart);
  EXPECT_FALSE(guard.allows(kGoodKey, kStart)) << "the first of seventeen";
  for (uint32_t i = 1; i < 17; i++) EXPECT_TRUE(guard.allows(kGoodKey + i, kStart)) << i;
}

TEST(KeyGuard, AWrongKeyThatComesAgainCostsNothing) {
  KeyGuard guard;
  for (int i = 0; i < 1000; i++) EXPECT_FALSE(guard.on_wrong(7, kStart));
  EXPECT_TRUE(guard.allows(kNewKey, kStart));
  guard.on_good(8);
  for (int i = 0; i < 1000; i++) EXPECT_FALSE(guard.on_wrong(8, kStart)) << "good elsewhere";
  EXPECT_TRUE(guard.allows(kNewKey, kStart));
  for (uint32_t i = 1; i < KeyGuard::kGuesses; i++) guard.on_wrong(kWrongKey + i, kStart);
  EXPECT_FALSE(guard.allows(kNewKey, kStart));
  EXPECT_FALSE(guard.allows(7, kStart)) << "63 others since";
  EXPECT_TRUE(guard.allows(kWrongKey + KeyGuard::kGuesses - 1, kStart));
}

}  // namespace
}  // namespace uroce::test
