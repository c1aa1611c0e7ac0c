// Round-trip times: what is measured, and what is not.
#include "transport/rtt_sampler.h"

#include <gmock/gmock.h>

#include "rig.h"

namespace uroce::test {
namespace {

constexpr Instant at_us(int64_t us) { return {us * 1000}; }

TEST(RttSampler, OneProbe) {
  RttSampler rtt;
  EXPECT_FALSE(rtt.known());
  rtt.on_sent(Psn(10), at_us(100));
  EXPECT_EQ(rtt.on_answered(Psn(9), at_us(105)), std::nullopt);
  EXPECT_EQ(rtt.on_answered(Psn(10), at_us(107)), microseconds(7));
  EXPECT_EQ(rtt.on_answered(Psn(10), at_us(108)), std::nullopt);
  EXPECT_EQ(rtt.samples(), 1u);
}

TEST(RttSampler, AnAnswerForSeveralMeasuresTheNewest) {
  RttSampler rtt;
  for (uint32_t i = 0; i < 4; i++) rtt.on_sent(Psn(0xFFFFFE + i), at_us(100 + i));  // wraps
  EXPECT_EQ(rtt.on_answered(Psn(0), at_us(110)), microseconds(8));
  EXPECT_EQ(rtt.on_answered(Psn(1), at_us(110)), microseconds(7));
}

TEST(RttSampler, NothingIsMeasuredAcrossARetransmission) {
  RttSampler rtt;
  rtt.on_sent(Psn(10), at_us(100));
  rtt.forget();
  EXPECT_EQ(rtt.on_answered(Psn(10), at_us(110)), std::nullopt);
  rtt.on_sent(Psn(11), at_us(120));
  EXPECT_EQ(rtt.on_answered(Psn(11), at_us(123)), microseconds(3));
}

TEST(RttSampler, MoreThanItHolds) {
  RttSampler rtt;
  for (uint32_t i = 0; i < RttSampler::kProbes + 5; i++) rtt.on_sent(Psn(i), at_us(i));
  EXPECT_EQ(rtt.on_answered(Psn(RttSampler::kProbes + 4), at_us(1000)), microseconds(1000 - RttSampler::kProbes + 1));
  rtt.on_sent(Psn(100), at_us(2000));
  EXPECT_EQ(rtt.on_answered(Psn(100), at_us(2004)), microseconds(4));
}

TEST(RttSampler, SmoothedAsInRfc6298) {
  RttSampler rtt;
  uint32_t psn = 0;
  const auto sample = [&](int64_t us) {
    rtt.on_sent(Psn(psn), at_us(1000));
    rtt.on_answered(Psn(psn++), at_us(1000 + us));
  };
  sample(80);
  EXPECT_EQ(rtt.smoothed(), microseconds(80));
  EXPECT_EQ(rtt.variation(), microseconds(40));
  sample(160);  // error 80: variation 40 + (80 - 40) / 4, smoothed 80 + 80 / 8
  EXPECT_EQ(rtt.variation(), microseconds(50));
  EXPECT_EQ(rtt.smoothed(), microseconds(90));
  sample(10);  // error -80: variation 50 + (80 - 50) / 4, smoothed 90 - 80 / 8
  EXPECT_EQ(rtt.variation(), nanoseconds(57'500));
  EXPECT_EQ(rtt.smoothed(), microseconds(80));
  EXPECT_EQ(rtt.minimum(), microseconds(10));
  EXPECT_EQ(rtt.latest(), microseconds(10));
}

/// Round trips are measured for congestion control.
RigOptions measured() {
  RigOptions options;
  options.engine.congestion.algorithm = CongestionAlgorithm::kDcqcn;
  return options;
}

TEST(RttSampler, TheRequesterMeasuresAcksAndResponses) {
  Rig rig(measured());
  const RttSampler& rtt = *rig.qp().requester()->rtt();
  rig.post(rig.send_wr(300, 1));  // two packets, 200 and 201; the second asks for an ACK
  rig.advance(microseconds(5));
  rig.arrive(ack(0x201, 1));
  EXPECT_EQ(rtt.samples(), 1u);
  EXPECT_EQ(rtt.latest(), microseconds(5));
  rig.post(rig.read_wr(512, 2));  // 202 and 203
  rig.advance(microseconds(9));
  rig.arrive(read_response(kOpReadResponseFirst, 0x202, 256));
  EXPECT_EQ(rtt.latest(), microseconds(9));
  rig.advance(microseconds(50));
  rig.arrive(read_response(kOpReadResponseLast, 0x203, 256));
  EXPECT_EQ(rtt.samples(), 2u);  // later responses of a READ tell its length, not the distance
  rig.post(rig.atomic_wr(WrOpcode::kFetchAdd, 3));
  rig.advance(microseconds(4));
  rig.arrive(atomic_ack(0x204, 0));
  EXPECT_EQ(rtt.samples(), 3u);
  EXPECT_EQ(rtt.latest(), microseconds(4));
}

TEST(RttSampler, TheRequesterMeasuresNothingThatItSentTwice) {
  Rig rig(measured());
  const RttSampler& rtt = *rig.qp().requester()->rtt();
  rig.post(rig.send_wr(16, 1));
  rig.advance(milliseconds(2));  // timeout: sent again
  EXPECT_EQ(rig.sent().size(), 2u);
  rig.arrive(ack(0x200, 1));
  EXPECT_EQ(rtt.samples(), 0u);
  rig.post(rig.send_wr(16, 2));
  rig.advance(microseconds(3));
  rig.arrive(ack(0x201, 2));
  EXPECT_EQ(rtt.latest(), microseconds(3));
}

}  // namespace
}  // namespace uroce::test
