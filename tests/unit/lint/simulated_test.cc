// Our own engines on simulated cables that lose, repeat and overtake, seen by a tap at either end: a tap is in front of
// one direction's losses and behind the other's. Whatever the cable does, neither engine breaks a rule, and the checker
// must not say so.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "edited_capture.h"
#include "engine/capture.h"
#include "lint/linter.h"
#include "pcap/pcap_writer.h"
#include "sim/testbed.h"
#include "transport/send_queue.h"

namespace uroce {
namespace {

using namespace sim;

/// Feeds the linter with the frames that an engine sends and receives.
class Tap final : public Capture {
 public:
  explicit Tap(bool with_direction) : with_direction_(with_direction) {}

  void on_frame(Direction direction, Instant now, std::span<const uint8_t> bytes) override {
    pcap::Frame frame;
    frame.number = ++frames_;
    frame.time = now;
    frame.has_time = true;
    frame.bytes = bytes;
    frame.original_bytes = static_cast<uint32_t>(bytes.size());
    if (with_direction_) {
      frame.direction = direction == Direction::kSent ? pcap::FrameDirection::kSent : pcap::FrameDirection::kReceived;
    }
    linter_.on_frame(frame);
    file_.add(now, bytes);
  }
  lint::Linter& linter() { return linter_; }
  /// To look at a run that failed.
  std::string save() const {
    const std::string path = testing::TempDir() + "lint_simulated.pcap";
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(file_.bytes().data()), static_cast<std::streamsize>(file_.bytes().size()));
    return path;
  }

 private:
  bool with_direction_;
  uint64_t frames_ = 0;
  lint::Linter linter_;
  pcap::PcapWriter file_;
};

struct CableCase {
  const char* name;
  fabric::ImpairmentConfig impairments;
  LossRecovery recovery = LossRecovery::kGoBackN;
};

const CableCase kCables[] = {
    {"Clean", {}},
    {"Lossy", {.loss = 0.01}},
    {"VeryLossy", {.loss = 0.05}},
    {"CleanAuto", {}, LossRecovery::kAuto},
    {"LossyAuto", {.loss = 0.01}, LossRecovery::kAuto},
    {"VeryLossyAuto", {.loss = 0.05}, LossRecovery::kAuto},
    {"LossySelective", {.loss = 0.01}, LossRecovery::kSelective},
    {"VeryLossySelective", {.loss = 0.05}, LossRecovery::kSelective},
};

uint64_t seeds() {
  const char* const text = std::getenv("UROCE_LINT_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 60;
}

class Traffic {
 public:
  Traffic(uint64_t seed, const CableCase& cable, QpType type) : random_(seed), bed_(seed) {
    bed_.cable.set(cable.impairments);
    options_.recovery_a = options_.recovery_b = cable.recovery;
    bed_.a.engine().set_capture(&tap_a_);
    bed_.b.engine().set_capture(&tap_b_);
    options_.type = type;
    options_.attributes.path_mtu_bytes = 256u << random_.below(4);
    options_.attributes.retry_cnt = 7;
    options_.attributes.rnr_retry = 7;
    options_.psn_a = Psn(0xFFFFF0);
    bed_.connect(ends_[0], ends_[1], options_);
    for (unsigned i = 0; i < 2; i++) memory_[i] = ends_[i].buffer(kBytes);
  }

  void run(unsigned batches) {
    for (unsigned batch = 0; batch < batches; batch++) {
      for (unsigned end = 0; end < 2; end++) post(end);
      bed_.world.run_for(microseconds(random_.below(400)));
      for (unsigned end = 0; end < 2; end++) {
        while (receives_[end] < 64) give_receive(end);
      }
      ASSERT_TRUE(bed_.world.run_until_idle());
      bool broken = false;
      for (Side& end : ends_) {
        for (const Completion& done : end.sent()) broken = broken || done.status != WcStatus::kSuccess;
        end.received();
      }
      if (broken) break;  // seven losses in a row use up the retries, as they should
    }
    tap_a_.linter().finish();
    tap_b_.linter().finish();
  }

  Tap tap_a_{true};
  Tap tap_b_{false};

 private:
  static constexpr uint32_t kBytes = 64 * 1024;

  void give_receive(unsigned end) {
    const Sge into = memory_[end].sge();
    ends_[end].receive(1, into);
    receives_[end]++;
  }

  void post(unsigned end) {
    const unsigned other = 1 - end;
    const bool rc = options_.type == QpType::kRc;
    for (unsigned n = 1 + random_.below(10); n > 0; n--) {
      constexpr WrOpcode kKinds[] = {WrOpcode::kSend,        WrOpcode::kRdmaWrite, WrOpcode::kRdmaWriteWithImm,
                                     WrOpcode::kSendWithImm, WrOpcode::kRdmaRead,  WrOpcode::kFetchAdd,
                                     WrOpcode::kCompareSwap, WrOpcode::kFlush,     WrOpcode::kAtomicWrite};
      SendWr wr;
      wr.opcode = kKinds[random_.below(rc ? 9 : 4)];
      const bool atomic = wr.opcode == WrOpcode::kFetchAdd || wr.opcode == WrOpcode::kCompareSwap;
      const uint32_t length = random_.below(3) == 0 ? random_.below(16) : random_.below(6000);
      const Sge sge = memory_[end].sge(0, atomic ? 8 : length);
      wr.sges = &sge;
      wr.num_sge = is_placement(wr.opcode) ? 0 : 1;
      wr.flush.length = length;
      wr.flags = kSendSignaled;
      wr.remote_addr = memory_[other].addr();
      wr.rkey = memory_[other].key;
      const bool needs_receive = wr.opcode == WrOpcode::kSend || wr.opcode == WrOpcode::kSendWithImm ||
                                 wr.opcode == WrOpcode::kRdmaWriteWithImm;
      if (needs_receive && receives_[other] > 0) receives_[other]--;
      if (needs_receive && !rc && receives_[other] < 4) give_receive(other);
      ASSERT_EQ(ends_[end].send(wr), PostResult::kOk);
    }
  }

  SeededRandom random_;
  Testbed bed_;
  QpOptions options_;
  Side ends_[2];
  Buffer memory_[2];
  int receives_[2] = {0, 0};  // at least so many are not used up
};

uint64_t first_seed() {
  const char* const text = std::getenv("UROCE_LINT_FIRST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

class Simulated : public testing::TestWithParam<std::tuple<QpType, CableCase>> {};

TEST_P(Simulated, TrafficIsClean) {
  uint64_t missing = 0;
  uint64_t lost = 0;
  for (uint64_t seed = first_seed(); seed <= seeds(); seed++) {
    Traffic traffic(seed, std::get<1>(GetParam()), std::get<0>(GetParam()));
    traffic.run(30);
    for (Tap* tap : {&traffic.tap_a_, &traffic.tap_b_}) {
      const lint::Linter& linter = tap->linter();
      ASSERT_GT(linter.totals().packets, 100u);
      // UC does not repeat what is lost, which gives findings; nothing else does.
      const uint64_t uc_losses = linter.findings().count(lint::Rule::kUcLoss);
      lost += uc_losses;
      ASSERT_EQ(linter.findings().kept().size(), uc_losses)
          << test::findings_text(linter) << "seed " << seed << ", saved in " << tap->save();
      for (const lint::Flow& flow : linter.flows()) {
        if (flow.channel != nullptr) missing += flow.channel->statistics().missing;
      }
    }
  }
  const bool lossy = std::get<1>(GetParam()).impairments.loss > 0;
  if (std::get<0>(GetParam()) == QpType::kRc) {
    EXPECT_EQ(missing > 100, lossy);
    EXPECT_EQ(lost, 0u);
  } else {
    EXPECT_EQ(lost > 100, lossy);
    EXPECT_LE(lost, missing);
  }
}

/// A READ is lost before the tap, or some of its responses come, while the path MTU is not known: how many PSNs it
/// takes is found out later.
TEST(SimulatedOnce, ReadsBeforeThePathMtuIsKnown) {
  struct Run {
    uint64_t seed;
    const CableCase& cable;
  };
  for (const Run& run : {Run{605, kCables[1]}, Run{228, kCables[2]}, Run{223, kCables[5]}}) {
    Traffic traffic(run.seed, run.cable, QpType::kRc);
    traffic.run(30);
    for (Tap* tap : {&traffic.tap_a_, &traffic.tap_b_}) {
      EXPECT_EQ(test::findings_text(tap->linter()), "") << run.cable.name << ", seed " << run.seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cables, Simulated,
                         testing::Combine(testing::Values(QpType::kRc, QpType::kUc), testing::ValuesIn(kCables)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) == QpType::kRc ? "Rc" : "Uc") +
                                  std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace uroce
