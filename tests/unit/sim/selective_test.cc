// Loss recovery in numbers: goodput against closed forms, the time that a lost tail costs, the end when a peer is gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/testbed.h"
#include "stream.h"
#include "transport/counters.h"

namespace uroce::sim {
namespace {

TEST(Goodput, SelectiveRepeat) {
  const Path path;
  EXPECT_GE(share(path, 0.001, 0.001, milliseconds(4), 64 * 1024, 64), 0.98);
  EXPECT_GE(share(path, 0.01, 0.01, milliseconds(4), 64 * 1024, 64), 0.95);
  EXPECT_GE(share(path, 0.05, 0.05, milliseconds(4), 64 * 1024, 64), 0.85);
}

/// The model: each loss costs a window, W, which is what leaves between the lost packet and its retransmission: a round
/// trip of packets, and those that the NIC has taken already. A single loss shows how many those are here. The QP's
/// window must neither limit the flow nor shrink. And losses must be found by NAKs: the responder does not repeat a
/// NAK, so a packet that is lost twice waits for the timer, which is short here and has its own term in the formula.
TEST(Goodput, GoBackNAgainstItsClosedForm) {
  Path path;
  path.recovery = LossRecovery::kGoBackN;
  path.delay = nanoseconds(300);
  path.window_packets = 8;  // the minimum, so losses do not shrink it
  path.timeout = 1;
  Stream one(1, path, 64 * 1024, 64);
  one.lose_frame(1000);
  one.goodput(microseconds(10), milliseconds(1));
  const auto window = static_cast<double>(one.counters().retransmits);
  ASSERT_GE(window, 2);
  ASSERT_LT(window, 8);
  const double packet_ns = (4096 + 42 + 16) * 8 / 100.0;
  const double timer = 2 * 4096 / packet_ns;
  for (const double p : {0.001, 0.01, 0.05}) {
    const double form = (1 - p) / (1 - p + p * window + p * p * timer);
    const double seen = share(path, p, 0, milliseconds(40), 64 * 1024, 64);
    std::printf("closed form: %.4f (W = %.0f)\n", form, window);
    EXPECT_NEAR(seen / form, 1, 0.05) << p;
  }
}

/// One message of one to four packets at a time, and each time exactly one packet or its answer is lost.
TEST(TailLoss, IsRepairedInThreeRoundTrips) {
  Testbed bed(3, {microseconds(6), 100'000'000'000, {}}, config_of({}));
  Side a;
  Side b;
  QpOptions options;
  options.attributes.path_mtu_bytes = 4096;
  options.attributes.timeout = 14;
  bed.connect(a, b, options);
  const Buffer near = a.buffer(4 * 4096);
  const Buffer far = b.buffer(4 * 4096);
  ASSERT_TRUE(bed.world.run_until_idle());
  SeededRandom random(5);
  uint64_t lose_there = 0;
  uint64_t lose_back = 0;
  bed.cable.a_to_b->set_drop_rule([&](auto) { return lose_there != 0 && --lose_there == 0; });
  bed.cable.b_to_a->set_drop_rule([&](auto) { return lose_back != 0 && --lose_back == 0; });
  std::vector<int64_t> times;
  int64_t clean = 0;
  for (unsigned n = 0; n < 2'000; n++) {
    const uint32_t packets = 1 + random.below(4);
    const bool warm = n < 50;
    lose_there = warm || n % 4 == 3 ? 0 : 1 + random.below(packets);
    lose_back = !warm && n % 4 == 3 ? 1 : 0;
    const Sge sge = near.sge(0, packets * 4096);
    SendWr wr;
    wr.opcode = WrOpcode::kRdmaWrite;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = far.addr();
    wr.rkey = far.key;
    const Instant start = bed.world.now();
    ASSERT_EQ(a.send(wr), PostResult::kOk);
    std::vector<Completion> done;
    ASSERT_TRUE(bed.world.run_until([&] { return !(done = a.sent()).empty(); }, milliseconds(1'000)));
    ASSERT_EQ(done[0].status, WcStatus::kSuccess);
    if (warm) clean = std::max(clean, (bed.world.now() - start).ns);
    if (!warm) times.push_back((bed.world.now() - start).ns);
    ASSERT_TRUE(bed.world.run_until_idle());
  }
  std::sort(times.begin(), times.end());
  const int64_t p99 = times[times.size() * 99 / 100];
  std::printf("without loss %.1f us at most; with one: median %.1f us, p99 %.1f us, most %.1f us\n",
              static_cast<double>(clean) / 1e3, static_cast<double>(times[times.size() / 2]) / 1e3,
              static_cast<double>(p99) / 1e3, static_cast<double>(times.back()) / 1e3);
  EXPECT_LE(p99, 3 * 12'000 + 100'000);
  EXPECT_EQ(bed.a.engine().counters().local_ack_timeout_err, 0u);
}

/// When the cable is cut, the error comes at the same instant with and without selective repeat.
TEST(Promise, ThePeerIsGoneAtTheSameInstant) {
  std::vector<int64_t> ends;
  for (const LossRecovery recovery : {LossRecovery::kGoBackN, LossRecovery::kAuto, LossRecovery::kSelective}) {
    Path path;
    path.recovery = recovery;
    Testbed bed(3, {path.delay, path.bits_per_second, {}}, config_of(path));
    Side a;
    Side b;
    QpOptions options;
    options.attributes.timeout = 8;
    options.attributes.retry_cnt = 3;
    bed.connect(a, b, options);
    const Buffer near = a.buffer(64 * 1024);
    const Buffer far = b.buffer(64 * 1024);
    const Sge sge = near.sge();
    SendWr wr;
    wr.opcode = WrOpcode::kRdmaWrite;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = far.addr();
    wr.rkey = far.key;
    for (int i = 0; i < 8; i++) {
      ASSERT_EQ(a.send(wr), PostResult::kOk);
      ASSERT_TRUE(bed.world.run_until_idle());
    }
    ASSERT_EQ(a.sent().size(), 8u);
    bed.cable.set({.loss = 1});
    const Instant cut = bed.world.now();
    ASSERT_EQ(a.send(wr), PostResult::kOk);
    std::vector<Completion> done;
    ASSERT_TRUE(bed.world.run_until([&] { return !(done = a.sent()).empty(); }));
    EXPECT_EQ(done[0].status, WcStatus::kRetryExcErr);
    ends.push_back((bed.world.now() - cut).ns);
    EXPECT_EQ(bed.a.engine().counters().tail_loss_probes != 0, recovery != LossRecovery::kGoBackN);
  }
  EXPECT_EQ(ends[1], ends[0]);
  EXPECT_EQ(ends[2], ends[0]);
  const int64_t timeout = 1'048'576;
  EXPECT_GE(ends[0], timeout * (1 + 2 + 4 + 4));
  EXPECT_LE(ends[0], timeout * (1 + 2 + 4 + 4) + 50'000);
}

}  // namespace
}  // namespace uroce::sim
