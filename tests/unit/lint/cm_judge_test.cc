// What connection management agreed on, against flows that were not spoken of.
#include <gtest/gtest.h>

#include "lint/cm_judge.h"

namespace uroce::test {
namespace {

using namespace lint;

class CmJudgeTest : public ::testing::Test {
 protected:
  const IpAddress client_ = IpAddress::v4(0x0a000001);
  const IpAddress server_ = IpAddress::v4(0x0a000002);

  /// A connection on which no data came.
  void agreed(uint32_t qpn, uint32_t psn) {
    Flow& flow = flows_.emplace_back();
    flow.key = {client_, server_, qpn};
    flow.agreement = Agreement({Psn(psn), 1024, 7, false});
  }
  /// Requests for which there was no REP.
  void sent(uint32_t qpn, uint32_t psn) {
    Flow& flow = flows_.emplace_back();
    flow.key = {client_, server_, qpn};
    flow.channel = std::make_unique<Channel>(findings_, static_cast<uint32_t>(flows_.size() - 1), Service::kRc);
    flow.statistics.packets = 1;
    flow.statistics.first_psn = Psn(psn);
  }
  uint64_t found() {
    const FlowIndex current;
    CmJudge(flows_, current, findings_).finish({});
    return findings_.count(Rule::kCmDataQp);
  }

  Flows flows_;
  Findings findings_{10};
};

TEST_F(CmJudgeTest, DataToAnotherQpIsKnownByItsPsn) {
  agreed(5, 1234);
  sent(6, 1234);
  sent(7, 4321);
  EXPECT_EQ(found(), 1u);
}

TEST_F(CmJudgeTest, AnEndThatAlwaysBeginsWithZeroSaysNothing) {
  agreed(5, 0);
  sent(6, 0);
  EXPECT_EQ(found(), 0u);
}

TEST_F(CmJudgeTest, NorDoesOneThatAlwaysBeginsAlike) {
  agreed(5, 100);
  agreed(8, 100);
  sent(6, 100);
  EXPECT_EQ(found(), 0u);
}

TEST_F(CmJudgeTest, NorDoesAPsnThatSeveralFlowsBeginWith) {
  agreed(5, 100);
  sent(6, 100);
  sent(7, 100);
  EXPECT_EQ(found(), 0u);
}

/// Comparing each agreement with each flow would take 10^10 steps.
TEST_F(CmJudgeTest, AHostileCaptureCostsNoMoreThanItsLength) {
  for (uint32_t i = 0; i < 100'000; i++) {
    agreed(2 + 2 * i, 77);
    sent(3 + 2 * i, 77);
  }
  EXPECT_EQ(found(), 0u);
}

}  // namespace
}  // namespace uroce::test
