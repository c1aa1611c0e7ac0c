// The window beside a rate: one bandwidth-delay product.
#include <gmock/gmock.h>

#include "congestion/congestion_control.h"

namespace uroce::test {
namespace {

constexpr Instant kNow{1'000'000'000};

class Window : public testing::Test {
 protected:
  Window() {
    config_.algorithm = CongestionAlgorithm::kDcqcn;
    config_.link_bits_per_second = 100'000'000'000;
    config_.has_win = true;
    config_.base_rtt = microseconds(12);
  }
  CongestionConfig config_;
};

TEST_F(Window, IsTheProductOfRateAndBaseRtt) {
  const auto cc = make_congestion_control(config_);
  cc->start(1024);
  EXPECT_EQ(cc->window_bytes(), 150'000u);
  cc->on_cnp(kNow);
  EXPECT_EQ(cc->window_bytes(), 75'000u);
  config_.var_win = false;
  EXPECT_EQ(cc->window_bytes(), 150'000u);
  config_.has_win = false;
  EXPECT_EQ(cc->window_bytes(), 0u);
}

TEST_F(Window, TheShortestRoundTripStandsInForBaseRtt) {
  config_.base_rtt = {0};
  const auto cc = make_congestion_control(config_);
  cc->start(1024);
  EXPECT_EQ(cc->window_bytes(), 0u);
  cc->on_rtt(microseconds(20), kNow);
  EXPECT_EQ(cc->window_bytes(), 250'000u);
  cc->on_rtt(microseconds(30), kNow);
  cc->on_rtt(microseconds(8), kNow);
  EXPECT_EQ(cc->window_bytes(), 100'000u);
  cc->start(1024);
  EXPECT_EQ(cc->window_bytes(), 0u);
}

TEST_F(Window, IsNeverNothing) {
  const auto cc = make_congestion_control(config_);
  cc->start(1024);
  config_.link_bits_per_second = 1000;
  EXPECT_EQ(cc->window_bytes(), 1u);
}

TEST(Make, EveryAlgorithm) {
  CongestionConfig config;
  EXPECT_EQ(make_congestion_control(config), nullptr);
  config.algorithm = CongestionAlgorithm::kDcqcn;
  EXPECT_TRUE(make_congestion_control(config)->takes_cnps());
  config.algorithm = CongestionAlgorithm::kTimely;
  EXPECT_FALSE(make_congestion_control(config)->takes_cnps());
  config.algorithm = CongestionAlgorithm::kSwift;
  EXPECT_FALSE(make_congestion_control(config)->takes_cnps());
}

}  // namespace
}  // namespace uroce::test
