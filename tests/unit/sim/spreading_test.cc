// One run of the victim topology with and without congestion control. More in spreading_long_test.
#include "spreading.h"

namespace uroce::sim {
namespace {

TEST(Spreading, PausesReachFlowsThatNeverMeetTheCrowd) {
  Spreading net("victim", paper_config(CongestionAlgorithm::kNone), 1);
  const double rate = net.measure(milliseconds(5), milliseconds(10))["victim-a"];
  EXPECT_LT(rate, 0.5 * net.fair_shares()["victim-a"]);
  EXPECT_GT(net.pauses(false), 100u);
  EXPECT_GT(net.pauses(true), 100u);
  EXPECT_EQ(net.run().totals().dropped, 0u);
}

TEST(Spreading, DcqcnEndsThem) {
  Spreading net("victim", paper_config(CongestionAlgorithm::kDcqcn), 1);
  net.measure(milliseconds(20), milliseconds(1));
  const uint64_t pauses = net.run().totals().pauses_sent;
  const double rate = net.measure(Duration{}, milliseconds(20))["victim-a"];
  EXPECT_GE(rate, 0.8 * net.fair_shares()["victim-a"]);
  EXPECT_EQ(net.run().totals().pauses_sent, pauses);
  EXPECT_EQ(net.run().totals().dropped, 0u);
}

}  // namespace
}  // namespace uroce::sim
