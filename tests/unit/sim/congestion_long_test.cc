// From 2 to 64 flows into one port, and the queue against the fixed point of DCQCN's fluid model.
#include <gtest/gtest.h>

#include <cmath>

#include "congestion_fixture.h"

namespace uroce::sim {
namespace {

class LongShare : public testing::TestWithParam<std::tuple<CongestionAlgorithm, uint32_t>> {};

TEST_P(LongShare, IsFairAndComplete) {
  const auto [algorithm, senders] = GetParam();
  const StarConfig config = star_config(algorithm, senders, 40);
  Star star(config);
  const Sharing sharing = share(star, config, milliseconds(50), milliseconds(50));
  EXPECT_GE(sharing.fairness, 0.95);
  EXPECT_GE(sharing.utilisation, 0.95);
  EXPECT_EQ(star.drops(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Flows, LongShare,
                         testing::Combine(testing::Values(CongestionAlgorithm::kDcqcn, CongestionAlgorithm::kTimely,
                                                          CongestionAlgorithm::kSwift),
                                          testing::Values(2u, 4u, 8u, 16u, 32u, 64u)));

/// The reason for the patch: TIMELY as published has no single point of balance.
TEST(Timely, UnpatchedItKeepsThePortBusyButNotFair) {
  StarConfig config = star_config(CongestionAlgorithm::kTimely, 8, 40);
  config.congestion.timely.patched = false;
  Star star(config);
  const Sharing sharing = share(star, config, milliseconds(50), milliseconds(50));
  EXPECT_LT(sharing.fairness, 0.95);
  EXPECT_GE(sharing.utilisation, 0.9);
}

/// Zhu et al., "ECN or Delay" (CoNEXT 2016): the marking probability at which increases and cuts balance, and the
/// length of a queue that marks so. In packets and seconds.
double fixed_point_bytes(const StarConfig& config) {
  const DcqcnConfig& d = config.congestion.dcqcn;
  const double packet_bits = (config.mtu + 58.0 + 24.0) * 8;
  const double n = config.senders;
  const double capacity = static_cast<double>(config.bits_per_second) / packet_bits;
  const double step = d.rpg_ai_rate * 1e6 / packet_bits;
  const double alpha_interval = d.dce_tcp_rtt * 1e-6;
  const double timer = d.rpg_time_reset * 1e-6;
  const double byte_counter = d.rpg_byte_reset * 8.0 / packet_bits;
  const double events = 1 / byte_counter + n / (timer * capacity);
  const double p = std::cbrt(step * n * n / (alpha_interval * capacity * capacity) * events * events);
  return config.ecn.kmin_bytes + p / config.ecn.pmax * (config.ecn.kmax_bytes - config.ecn.kmin_bytes);
}

class FixedPoint : public testing::TestWithParam<uint32_t> {};

TEST_P(FixedPoint, IsWhereTheQueueSettles) {
  const StarConfig config = star_config(CongestionAlgorithm::kDcqcn, GetParam(), 40);
  Star star(config);
  const Sharing sharing = share(star, config, milliseconds(100), milliseconds(200));
  const double expected = fixed_point_bytes(config);
  std::printf("  the model says %.0f bytes\n", expected);
  EXPECT_NEAR(sharing.mean_queue_bytes, expected, expected * 0.2);
}

INSTANTIATE_TEST_SUITE_P(Flows, FixedPoint, testing::Values(2u, 4u, 6u, 8u, 10u));

}  // namespace
}  // namespace uroce::sim
