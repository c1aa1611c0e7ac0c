// The victim and parking-lot topologies of DCQCN's paper. A flow's fair share is max-min over the cables that it really
// crosses: which of two equal ways a flow takes is chance, and with it who shares with whom.
#include "congestion/congestion_control.h"
#include "spreading.h"

namespace uroce::sim {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// The part of its fair share that the victim gets, for each seed.
std::vector<double> victims(CongestionAlgorithm algorithm, By by, uint64_t seeds) {
  std::vector<double> parts;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    Spreading net("victim", paper_config(algorithm, by), seed);
    auto rates = net.measure(milliseconds(30), milliseconds(30));
    const double fair = net.fair_shares()["victim-a"];
    parts.push_back(rates["victim-a"] / fair);
    std::printf("  seed %2llu: %5.2f of %5.2f Gb/s, %.2f; pauses: %llu between switches, %llu of hosts\n",
                static_cast<unsigned long long>(seed), rates["victim-a"], fair, parts.back(),
                static_cast<unsigned long long>(net.pauses(false)), static_cast<unsigned long long>(net.pauses(true)));
    EXPECT_EQ(net.run().totals().dropped, 0u);
    EXPECT_EQ(net.run().retransmits(), 0u);
  }
  std::printf("  median %.2f\n", median(parts));
  return parts;
}

TEST(Victim, IsStarvedWithoutCongestionControl) {
  EXPECT_LT(median(victims(CongestionAlgorithm::kNone, By::kNic, 6)), 0.5);
}

TEST(Victim, WhoeverObeysThePauses) { EXPECT_LT(median(victims(CongestionAlgorithm::kNone, By::kEngine, 2)), 0.5); }

TEST(Victim, HasItsShareWithDcqcn) {
  for (const double part : victims(CongestionAlgorithm::kDcqcn, By::kNic, 6)) EXPECT_GE(part, 0.8);
}

class ParkingLot : public testing::TestWithParam<uint32_t> {
 protected:
  /// The part of its fair share, half a cable, that the long flow gets.
  double part(const NetworkConfig& config) {
    const std::string topology = "parking-lot:" + std::to_string(GetParam());
    Spreading net(topology.c_str(), config, 1);
    auto rates = net.measure(milliseconds(50), milliseconds(50));
    pauses_ = net.pauses(false) + net.pauses(true);
    const double fair = net.fair_shares()["long-a"];
    std::printf("  %u hops: %5.2f of %5.2f Gb/s, %llu pauses\n", GetParam(), rates["long-a"], fair,
                static_cast<unsigned long long>(pauses_));
    EXPECT_NEAR(fair, 40.0 * 1024 / 1106 / 2, 0.01);
    EXPECT_EQ(net.run().totals().dropped, 0u);
    for (uint32_t i = 0; i < GetParam(); i++) EXPECT_GE(rates["a" + std::to_string(i)], 0.9 * fair);
    return rates["long-a"] / fair;
  }
  uint64_t pauses_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Hops, ParkingLot, testing::Values(2u, 3u));

/// Pauses stop ports in turn, so the shares are fair here, but every host is stopped thousands of times.
TEST_P(ParkingLot, PausesAloneAreFairAndMany) {
  EXPECT_GE(part(paper_config(CongestionAlgorithm::kNone)), 0.9);
  EXPECT_GT(pauses_, 5'000u);
}

/// Every hop slows the long flow down: it gets more than 1 / (hops + 1) of a cable, the proportionally fair share, and
/// less than half of one.
TEST_P(ParkingLot, DcqcnIsBetweenProportionalAndMaxMinFairness) {
  const double with_red = part(paper_config(CongestionAlgorithm::kDcqcn));
  EXPECT_GE(with_red, 2.0 / (GetParam() + 1));
  EXPECT_LT(pauses_, 200u);
  // A queue that marks everything above a length and nothing below it starves the long flow.
  NetworkConfig cut_off = paper_config(CongestionAlgorithm::kDcqcn);
  for (fabric::PriorityConfig& priority : cut_off.switches.priorities) priority.ecn = {true, 40'000, 40'000, 1, 0};
  EXPECT_LT(part(cut_off), 0.8 * with_red);
}

}  // namespace
}  // namespace uroce::sim
