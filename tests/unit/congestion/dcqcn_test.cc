// DCQCN's reaction point against its closed forms.
#include "congestion/dcqcn.h"

#include <gmock/gmock.h>

#include <cmath>

#include "congestion/parameters.h"
#include "rates.h"

namespace uroce::test {
namespace {

constexpr Instant at_us(int64_t us) { return {1'000'000'000 + us * 1000}; }

class DcqcnTest : public testing::Test {
 protected:
  DcqcnTest() {
    config_.algorithm = CongestionAlgorithm::kDcqcn;
    config_.link_bits_per_second = 100 * kGigabit;
    config_.dcqcn.rpg_byte_reset = 0;  // by time alone, unless a test sets it
    dcqcn_.start(1024);
  }
  void set(const char* assignment) {
    std::string error;
    ASSERT_TRUE(set_congestion_parameter(config_, assignment, error)) << error;
  }
  uint64_t rate_at(int64_t us) {
    dcqcn_.advance(at_us(us));
    return dcqcn_.rate_bits_per_second();
  }
  CongestionConfig config_;
  Dcqcn dcqcn_{config_};
};

TEST_F(DcqcnTest, NotLimitedUntilTheFirstCnp) {
  EXPECT_FALSE(dcqcn_.limited());
  dcqcn_.advance(at_us(1'000'000));
  EXPECT_FALSE(dcqcn_.limited());
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 0u);
  EXPECT_EQ(dcqcn_.next_change(), Instant::never());
}

TEST_F(DcqcnTest, TheFirstCnpHalvesTheRateExactly) {
  for (const uint64_t link : {10 * kGigabit, 100 * kGigabit, 400 * kGigabit}) {
    config_.link_bits_per_second = link;
    dcqcn_.start(1024);
    dcqcn_.on_cnp(at_us(0));
    EXPECT_TRUE(dcqcn_.limited());
    EXPECT_EQ(dcqcn_.rate_bits_per_second(), link / 2);
    EXPECT_EQ(dcqcn_.target_bits_per_second(), link);
    EXPECT_EQ(dcqcn_.alpha(), 1.0);  // (1 - g) * 1 + g
  }
}

TEST_F(DcqcnTest, AnUnknownLinkStartsFromAConfiguredOrAssumedRate) {
  config_.link_bits_per_second = 0;
  dcqcn_.on_cnp(at_us(0));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), kUnknownLinkBitsPerSecond / 2);
  set("rpg_max_rate=8000");
  dcqcn_.start(1024);
  dcqcn_.on_cnp(at_us(0));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 4 * kGigabit);
}

// Alpha's half-life without CNPs is ln 2 / -ln(1 - g): 177 updates at g = 1/256.
TEST_F(DcqcnTest, HalfLifeOfAlphaIs177Updates) {
  dcqcn_.on_cnp(at_us(0));
  // Alpha shows at the next CNP: it is aged first, then raised by g.
  const auto alpha_after = [this](int64_t updates) {
    dcqcn_.start(1024);
    dcqcn_.on_cnp(at_us(0));
    dcqcn_.on_cnp(at_us(55 * updates));
    const double g = 1.0 / 256;
    return (dcqcn_.alpha() - g) / (1 - g);
  };
  EXPECT_NEAR(alpha_after(1), 255.0 / 256, 1e-6);
  EXPECT_GT(alpha_after(177), 0.5);  // 9.735 ms
  EXPECT_LT(alpha_after(178), 0.5);
  EXPECT_NEAR(alpha_after(177), std::pow(255.0 / 256, 177), 1e-6);
}

TEST_F(DcqcnTest, HalfLifeOfAlphaWithNicValuesIs142Microseconds) {
  set("profile=nic");
  set("rpg_byte_reset=0");
  const auto alpha_after = [this](int64_t us) {
    dcqcn_.start(1024);
    dcqcn_.on_cnp(at_us(0));
    dcqcn_.on_cnp(at_us(us));
    return dcqcn_.alpha();
  };
  // The first interval had a CNP in it and raised alpha, from 1023/1024: this takes one update more than the half-life.
  const double raised = 1 - 1.0 / 1024 * 1019 / 1024;
  EXPECT_NEAR(alpha_after(143), raised * std::pow(1019.0 / 1024, 142), 1e-6);
  EXPECT_LT(alpha_after(143), 0.5);
  EXPECT_GT(alpha_after(142), 0.5);
}

TEST_F(DcqcnTest, AlphaGrowsByGWithEveryCnp) {
  set("initial_alpha_value=0");
  double expected = 0;
  for (int i = 0; i < 20; i++) {
    dcqcn_.on_cnp(at_us(50 * i));  // in time: no decay in between
    expected += (1 - expected) / 256;
    EXPECT_NEAR(dcqcn_.alpha(), expected, 1e-8);
  }
}

TEST_F(DcqcnTest, FiveStepsOfFastRecoveryLeaveAThirtySecondOfTheGap) {
  dcqcn_.on_cnp(at_us(0));
  const uint64_t gap = 50 * kGigabit;
  EXPECT_EQ(rate_at(54), 50 * kGigabit);
  for (int step = 1; step <= 5; step++) {
    EXPECT_EQ(rate_at(55 * step), 100 * kGigabit - (gap >> step));
    EXPECT_EQ(dcqcn_.target_bits_per_second(), 100 * kGigabit);
  }
  EXPECT_EQ(100 * kGigabit - rate_at(275), gap / 32);
}

// Periods begin at the first CNP; however many CNPs come in one, there is one cut, at its end.
TEST_F(DcqcnTest, CutsCanWaitForTheEndOfAPeriod) {
  set("cut_by_interval=1");
  set("rate_reduce_monitor_period=4");
  const uint64_t link = 100 * kGigabit;
  dcqcn_.on_cnp(at_us(0));
  EXPECT_EQ(dcqcn_.next_change(), at_us(4));
  EXPECT_EQ(rate_at(3), link);
  EXPECT_EQ(rate_at(4), link / 2);
  EXPECT_EQ(dcqcn_.target_bits_per_second(), link);
  for (const int64_t us : {5, 6, 7}) dcqcn_.on_cnp(at_us(us));
  EXPECT_EQ(rate_at(7), link / 2);
  EXPECT_EQ(rate_at(8), link / 4);
  EXPECT_EQ(rate_at(12), link / 4);  // no CNP in this one
  dcqcn_.on_cnp(at_us(21));
  EXPECT_EQ(rate_at(23), link / 4);
  EXPECT_EQ(rate_at(24), link / 8);
  dcqcn_.on_cnp(at_us(24));  // the next one has begun
  EXPECT_EQ(rate_at(27), link / 8);
  EXPECT_EQ(rate_at(28), link / 16);
}

TEST_F(DcqcnTest, ThenAdditiveIncrease) {
  set("rpg_byte_reset=10000000");  // never reached here
  dcqcn_.on_cnp(at_us(0));
  dcqcn_.on_cnp(at_us(50));  // 25G; its target is 50G
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 25 * kGigabit);
  EXPECT_EQ(dcqcn_.target_bits_per_second(), 50 * kGigabit);
  uint64_t rate = rate_at(50 + 5 * 55);
  EXPECT_EQ(rate, 50 * kGigabit - 25 * kGigabit / 32);
  for (uint64_t step = 1; step <= 3; step++) {
    const uint64_t target = 50 * kGigabit + step * 40'000'000;
    rate = (rate + target + 1) / 2;
    EXPECT_EQ(rate_at(50 + 55 * (5 + static_cast<int64_t>(step))), rate);
    EXPECT_EQ(dcqcn_.target_bits_per_second(), target);
  }
}

TEST_F(DcqcnTest, WithoutByteCounterTheTimerAloneGoesHyper) {
  dcqcn_.on_cnp(at_us(0));
  dcqcn_.on_cnp(at_us(50));
  rate_at(50 + 55 * 6);
  EXPECT_EQ(dcqcn_.target_bits_per_second(), 50 * kGigabit + 40'000'000);
  rate_at(50 + 55 * 7);
  EXPECT_EQ(dcqcn_.target_bits_per_second(), 50 * kGigabit + 240'000'000);
}

TEST_F(DcqcnTest, WithoutByteCounterBytesDoNotMatter) {
  dcqcn_.on_cnp(at_us(0));
  for (int i = 0; i < 10; i++) dcqcn_.on_sent(UINT32_MAX, at_us(1));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 50 * kGigabit);
}

TEST_F(DcqcnTest, WhatWasSentBeforeTheFirstCnpDoesNotCount) {
  set("rpg_byte_reset=1000");
  dcqcn_.on_sent(5000, at_us(0));
  EXPECT_FALSE(dcqcn_.limited());
  dcqcn_.on_cnp(at_us(1));
  dcqcn_.on_sent(999, at_us(2));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 50 * kGigabit);
}

/// Bytes beyond a step count for the next one.
TEST_F(DcqcnTest, EachStepOfTheByteCounterTakesAsManyBytes) {
  set("rpg_byte_reset=1000");
  dcqcn_.on_cnp(at_us(0));
  const auto rate_after = [this](uint32_t bytes) {
    dcqcn_.on_sent(bytes, at_us(1));
    return dcqcn_.rate_bits_per_second();
  };
  const uint64_t cut = dcqcn_.rate_bits_per_second();
  EXPECT_EQ(rate_after(999), cut);
  const uint64_t once = rate_after(201);
  EXPECT_GT(once, cut);
  EXPECT_EQ(rate_after(799), once);
  EXPECT_GT(rate_after(1), once);
}

// The timer and the byte counter count separately; additive increase needs one of them, hyper increase both.
TEST_F(DcqcnTest, ByteCounterAndTimerBothCountSteps) {
  set("rpg_byte_reset=1000");
  dcqcn_.on_cnp(at_us(0));
  dcqcn_.on_cnp(at_us(50));
  dcqcn_.on_sent(999, at_us(51));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 25 * kGigabit);
  dcqcn_.on_sent(1, at_us(51));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 37'500'000'000u);
  for (int i = 0; i < 4; i++) dcqcn_.on_sent(1000, at_us(52));
  EXPECT_EQ(dcqcn_.target_bits_per_second(), 50 * kGigabit);  // five steps: recovered
  dcqcn_.on_sent(1000, at_us(53));
  EXPECT_EQ(dcqcn_.target_bits_per_second(), 50 * kGigabit + 40'000'000);
  for (int i = 0; i < 10; i++) dcqcn_.on_sent(1000, at_us(54));
  EXPECT_EQ(dcqcn_.target_bits_per_second(), 50 * kGigabit + 11 * 40'000'000);  // bytes alone: no hyper increase
  uint64_t target = 50 * kGigabit + 11 * 40'000'000;
  for (int step = 1; step <= 8; step++) {
    rate_at(50 + 55 * step);
    target += step <= 6 ? 40'000'000 : 200'000'000;  // both beyond five from the seventh on
    EXPECT_EQ(dcqcn_.target_bits_per_second(), target) << step;
  }
}

TEST_F(DcqcnTest, ACutStartsTheStepsAfresh) {
  dcqcn_.on_cnp(at_us(0));
  rate_at(200);  // three steps
  const uint64_t before = dcqcn_.rate_bits_per_second();
  dcqcn_.on_cnp(at_us(200));
  EXPECT_EQ(dcqcn_.target_bits_per_second(), before);
  const uint64_t after = dcqcn_.rate_bits_per_second();
  EXPECT_EQ(rate_at(254), after);
  EXPECT_NEAR(static_cast<double>(rate_at(255)), static_cast<double>(before + after) / 2, 1);
}

TEST_F(DcqcnTest, AtMostOneCutAnInterval) {
  dcqcn_.on_cnp(at_us(0));
  for (int i = 1; i < 50; i++) dcqcn_.on_cnp(at_us(i));
  EXPECT_EQ(rate_at(49), 50 * kGigabit);
  EXPECT_EQ(rate_at(50), 25 * kGigabit);  // the CNPs in between cut once, when the interval is over
  EXPECT_EQ(rate_at(104), 25 * kGigabit);
  EXPECT_GT(rate_at(105), 25 * kGigabit);
}

TEST_F(DcqcnTest, NeverBelowTheLowestRate) {
  for (int i = 0; i < 100; i++) dcqcn_.on_cnp(at_us(50 * i));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 10'000'000u);
  config_.link_bits_per_second = 5'000'000;  // slower than the lowest rate
  dcqcn_.start(1024);
  for (int i = 0; i < 10; i++) dcqcn_.on_cnp(at_us(50 * i));
  EXPECT_LE(dcqcn_.rate_bits_per_second(), 5'000'000u);
}

TEST_F(DcqcnTest, OneCutLeavesMinDecFac) {
  set("rpg_min_dec_fac=80");
  dcqcn_.on_cnp(at_us(0));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 80 * kGigabit);
}

TEST_F(DcqcnTest, GdScalesTheCut) {
  set("rpg_gd=12");  // a quarter of alpha
  dcqcn_.on_cnp(at_us(0));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 75 * kGigabit);
}

TEST_F(DcqcnTest, RateToSetOnFirstCnp) {
  set("rate_to_set_on_first_cnp=7000");
  dcqcn_.on_cnp(at_us(0));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 7 * kGigabit);
  dcqcn_.on_cnp(at_us(50));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 3'500'000'000u);
}

TEST_F(DcqcnTest, WithoutClampTheTargetStaysUntilTheRateHasRisen) {
  set("clamp_tgt_rate=0");
  dcqcn_.on_cnp(at_us(0));
  dcqcn_.on_cnp(at_us(50));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), 25 * kGigabit);
  EXPECT_EQ(dcqcn_.target_bits_per_second(), 100 * kGigabit);
  const uint64_t risen = rate_at(105);
  EXPECT_EQ(risen, 62'500'000'000u);
  dcqcn_.on_cnp(at_us(106));
  EXPECT_EQ(dcqcn_.target_bits_per_second(), risen);
}

TEST_F(DcqcnTest, AtTheHighestRateItIsNotLimitedAnyMore) {
  dcqcn_.on_cnp(at_us(0));
  EXPECT_EQ(rate_at(10'000), 0u);
  EXPECT_FALSE(dcqcn_.limited());
  EXPECT_EQ(dcqcn_.next_change(), Instant::never());
  // Alpha is remembered: after 10 ms it is just under a half, so the next cut is a quarter.
  dcqcn_.on_cnp(at_us(10'000));
  EXPECT_NEAR(static_cast<double>(dcqcn_.rate_bits_per_second()), 100e9 * (1 - std::pow(255.0 / 256, 10'000 / 55) / 2),
              1e6);
}

// What happens between two calls is computed later; how many calls there are must not matter.
TEST_F(DcqcnTest, AskingMoreOftenChangesNothing) {
  Dcqcn other(config_);
  other.start(1024);
  for (int64_t us = 0; us < 20'000; us++) {
    if (us % 731 == 0) {
      dcqcn_.on_cnp(at_us(us));
      other.on_cnp(at_us(us));
    }
    other.advance(at_us(us));
  }
  dcqcn_.advance(at_us(20'000));
  other.advance(at_us(20'000));
  EXPECT_EQ(dcqcn_.rate_bits_per_second(), other.rate_bits_per_second());
  EXPECT_EQ(dcqcn_.alpha(), other.alpha());
  EXPECT_NE(dcqcn_.rate_bits_per_second(), 0u);
}

TEST_F(DcqcnTest, ALongSilenceIsWorkedOutQuickly) {
  set("profile=nic");
  dcqcn_.on_cnp(at_us(0));
  dcqcn_.on_cnp({at_us(0).ns + int64_t{86'400} * 1'000'000'000});  // a day, with an update each microsecond
  EXPECT_LT(dcqcn_.alpha(), 0.01);
}

}  // namespace
}  // namespace uroce::test
