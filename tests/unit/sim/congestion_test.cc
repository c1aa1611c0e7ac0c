// A few flows into one port: they share it, keep it busy, and lose nothing. The full range is in congestion_long_test.
#include <gtest/gtest.h>

#include "congestion_fixture.h"
#include "transport/counters.h"

namespace uroce::sim {
namespace {

TEST(Congestion, WithoutControlTheQueueGrowsWithoutBound) {
  const StarConfig config = star_config(CongestionAlgorithm::kNone, 4, 10);
  Star star(config);
  const Sharing sharing = share(star, config, milliseconds(2), milliseconds(2));
  EXPECT_GT(sharing.mean_queue_bytes, 250'000);  // bounded by the windows of 128 packets alone
  EXPECT_EQ(star.receiver_counters().np_cnp_sent, 0u);
}

class Share : public testing::TestWithParam<std::pair<CongestionAlgorithm, uint32_t>> {};

TEST_P(Share, IsFairAndComplete) {
  const auto [algorithm, senders] = GetParam();
  const StarConfig config = star_config(algorithm, senders, 10);
  Star star(config);
  const Sharing sharing = share(star, config, milliseconds(50), milliseconds(20));
  EXPECT_GE(sharing.fairness, 0.95);
  EXPECT_GE(sharing.utilisation, 0.95);
  EXPECT_EQ(star.drops(), 0u);
  for (uint32_t i = 0; i < senders; i++) EXPECT_TRUE(star.congestion(i).limited()) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Flows, Share,
    testing::Values(std::pair(CongestionAlgorithm::kDcqcn, 2u), std::pair(CongestionAlgorithm::kDcqcn, 8u),
                    std::pair(CongestionAlgorithm::kTimely, 2u), std::pair(CongestionAlgorithm::kTimely, 8u),
                    std::pair(CongestionAlgorithm::kSwift, 2u), std::pair(CongestionAlgorithm::kSwift, 8u)));

TEST(Congestion, TheSameSeedGivesTheSameRun) {
  const StarConfig config = star_config(CongestionAlgorithm::kDcqcn, 3, 10);
  uint64_t bytes[2];
  uint64_t cnps[2];
  for (int run = 0; run < 2; run++) {
    Star star(config);
    star.start();
    star.run_for(milliseconds(5));
    bytes[run] = star.bottleneck().tx_bytes;
    cnps[run] = star.receiver_counters().np_cnp_sent;
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(cnps[0], cnps[1]);
  EXPECT_NE(cnps[0], 0u);
}

TEST(Congestion, MarksCnpsAndTheirHandlingAgree) {
  const StarConfig config = star_config(CongestionAlgorithm::kDcqcn, 4, 10);
  Star star(config);
  star.start();
  star.run_for(milliseconds(20));
  const Counters& receiver = star.receiver_counters();
  uint64_t handled = 0;
  for (uint32_t i = 0; i < star.senders(); i++) handled += star.sender(i).engine().counters().rp_cnp_handled;
  EXPECT_GE(star.bottleneck().ecn_marked, receiver.np_ecn_marked_roce_packets);
  EXPECT_LE(star.bottleneck().ecn_marked, receiver.np_ecn_marked_roce_packets + 10);  // on the cable
  EXPECT_GE(receiver.np_ecn_marked_roce_packets, receiver.np_cnp_sent);
  EXPECT_GE(receiver.np_cnp_sent, handled);
  EXPECT_LE(receiver.np_cnp_sent, handled + 4);
  EXPECT_GT(handled, 4u);
}

}  // namespace
}  // namespace uroce::sim
