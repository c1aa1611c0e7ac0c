#include "oracle/options.h"

#include <cinttypes>
#include <cstdio>
#include <iterator>

namespace uroce::oracle {

namespace {

constexpr const char* kFaultNames[] = {"loss",  "reorder", "duplicate", "corrupt", "burst",  "jitter", "flap",
                                       "pause", "marks",   "receives",  "pool",    "port",   "late",   "blackout",
                                       "reset", "restart", "engine",    "clock",   "memory", "spoofer"};
static_assert(std::size(kFaultNames) == static_cast<size_t>(Fault::kCount));

const char* word(LossRecovery recovery) {
  return recovery == LossRecovery::kGoBackN ? "go-back-n" : recovery == LossRecovery::kAuto ? "auto" : "selective";
}

/// One seed's faults.
class Draw {
 public:
  Draw(MixedOptions& options, uint64_t seed) : options_(options), seed_(seed) {}

  /// The numbers of one fault, if it is drawn: once in `often` seeds.
  bool begin(Fault fault, uint32_t often) {
    random_ = SeededRandom((seed_ << 8) + 0xFA0170u + static_cast<unsigned>(fault));
    if (random_.below(often) != 0 || (options_.without & bit(fault)) != 0) return false;
    options_.faults |= bit(fault);
    return true;
  }
  uint32_t below(uint32_t bound) { return random_.below(bound); }
  double part(double most) { return most * (1 + random_.below(1000)) / 1000; }

 private:
  MixedOptions& options_;
  uint64_t seed_;
  SeededRandom random_{0};
};

void draw_interruptions(Draw& draw, fabric::ImpairmentConfig& cable) {
  if (draw.begin(Fault::kBurst, 4)) {
    cable.burst.to_bad = draw.part(0.005);
    cable.burst.to_good = 0.1 + draw.part(0.7);
    cable.burst.loss_when_bad = 0.5 + draw.part(0.5);
  }
  if (draw.begin(Fault::kJitter, 4)) cable.jitter = microseconds(1 + draw.below(40));
  if (draw.begin(Fault::kFlap, 5)) {
    const Duration length = microseconds(5 + draw.below(300));
    cable.down.push_back(
        {microseconds(draw.below(500)), length, Duration{length.ns + 1000 * (200 + int64_t{draw.below(3000)})}});
  }
  if (draw.begin(Fault::kPause, 6)) {
    fabric::PauseStorm storm;
    storm.from = microseconds(draw.below(300));
    storm.length = draw.below(4) == 0 ? milliseconds(300 + draw.below(500)) : microseconds(50 + draw.below(5000));
    storm.quanta = static_cast<uint16_t>(1 + draw.below(65535));
    storm.every = microseconds(10 + draw.below(300));
    cable.pause_storms.push_back(storm);
  }
}

void draw_hosts(Draw& draw, MixedOptions& options) {
  if (draw.begin(Fault::kMarks, 3)) {
    options.congestion = static_cast<CongestionAlgorithm>(1 + draw.below(3));
    fabric::FaultRule mark;
    mark.action = fabric::FaultRule::Action::kMark;
    mark.filter.what = fabric::FrameClass::kData;
    mark.every = draw.below(4) == 0 ? 1 : 2 + draw.below(100);
    options.impairments.rules.push_back(mark);
  }
  draw.begin(Fault::kReceives, 6);
  if (draw.begin(Fault::kPool, 4)) options.reorder_packets = 1u << draw.below(6);
  draw.begin(Fault::kPort, 6);
  if (draw.begin(Fault::kLate, 6)) options.turn_delay = microseconds(1 + draw.below(100));
  draw.begin(Fault::kBlackout, 10);
  draw.begin(Fault::kReset, 5);
  draw.begin(Fault::kRestart, 6);
  draw.begin(Fault::kEngine, 8);
  draw.begin(Fault::kClock, 6);
  if (draw.begin(Fault::kMemory, 6) && draw.below(2) == 0) options.rx_frames = 2 + draw.below(63);
  draw.begin(Fault::kSpoofer, 6);
}

void draw_recovery(MixedOptions& options) {
  SeededRandom random((options.seed << 8) + 0x5AC4u);
  constexpr LossRecovery kN = LossRecovery::kGoBackN;
  constexpr LossRecovery kA = LossRecovery::kAuto;
  constexpr LossRecovery kS = LossRecovery::kSelective;
  constexpr LossRecovery kPairs[][2] = {{kN, kN}, {kN, kN}, {kN, kN}, {kA, kA}, {kA, kA},
                                        {kA, kA}, {kA, kA}, {kA, kN}, {kN, kA}, {kS, kS}};
  const auto& pair = kPairs[random.below(std::size(kPairs))];
  options.recovery_a = pair[0];
  options.recovery_b = pair[1];
}

}  // namespace

std::string fault_list(uint32_t faults) {
  std::string text;
  for (unsigned i = 0; i < std::size(kFaultNames); i++) {
    if ((faults >> i & 1) != 0) text += (text.empty() ? "" : ",") + std::string(kFaultNames[i]);
  }
  return text;
}

const char* fault_name(Fault fault) { return kFaultNames[static_cast<unsigned>(fault)]; }

bool parse_faults(std::string_view text, uint32_t& bits) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    unsigned i = 0;
    while (i < std::size(kFaultNames) && name != kFaultNames[i]) i++;
    if (i == std::size(kFaultNames)) return false;
    bits |= 1u << i;
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return true;
}

bool MixedOptions::loses() const {
  return impairments.loss + impairments.corrupt + impairments.burst.to_bad != 0 || !impairments.down.empty() ||
         has(Fault::kMemory);
}

bool MixedOptions::may_fail() const {
  return (faults &
          (bit(Fault::kBurst) | bit(Fault::kFlap) | bit(Fault::kReceives) | bit(Fault::kBlackout) | bit(Fault::kReset) |
           bit(Fault::kRestart) | bit(Fault::kEngine) | bit(Fault::kClock) | bit(Fault::kMemory))) != 0;
}

std::string MixedOptions::command() const {
  char text[500];
  const char* name = type == QpType::kRc ? "rc" : type == QpType::kUc ? "uc" : "ud";
  const int length = std::snprintf(
      text, sizeof text,
      "uroce-verify%s --type %s --seed %" PRIu64 " --ops %" PRIu64
      " --mtu %u --qps %u --max %u --small %u --loss %g --reorder %g --dup %g --corrupt %g --span-us %" PRId64
      " --recovery-a %s --recovery-b %s",
      drawn ? " --drawn" : "", name, seed, ops, mtu, qps, max_bytes, small_bytes, impairments.loss, impairments.reorder,
      impairments.duplicate, impairments.corrupt, impairments.reorder_span.ns / 1000, word(recovery_a),
      word(recovery_b));
  std::string command(text, static_cast<size_t>(length));
  if (without != 0) command += " --without " + fault_list(without);
  if (faults != 0) command += "   # " + fault_list(faults);
  return command;
}

MixedOptions draw_mixed(uint64_t seed, uint32_t without) {
  SeededRandom random(seed);
  const auto often = [&](double most) { return random.below(2) == 0 ? 0 : most * random.below(1000) / 1000; };
  MixedOptions options;
  options.seed = seed;
  options.drawn = true;
  options.without = without;
  options.qps = 1 + random.below(6);
  fabric::ImpairmentConfig& cable = options.impairments;
  const auto keep = [&](Fault fault, double& probability) {
    if ((without & bit(fault)) != 0) probability = 0;
    if (probability != 0) options.faults |= bit(fault);
  };
  cable.loss = often(0.02);
  cable.reorder = often(0.05);
  cable.duplicate = often(0.1);
  cable.corrupt = often(0.01);
  cable.reorder_span = microseconds(5 + random.below(random.below(4) == 0 ? 1500 : 60));
  keep(Fault::kLoss, cable.loss);
  keep(Fault::kReorder, cable.reorder);
  keep(Fault::kDuplicate, cable.duplicate);
  keep(Fault::kCorrupt, cable.corrupt);
  Draw draw(options, seed);
  draw_interruptions(draw, cable);
  draw_hosts(draw, options);
  draw_recovery(options);
  return options;
}

std::string MixedReport::text() const {
  char text[512];
  std::snprintf(text, sizeof text,
                "%" PRIu64 " operations, %" PRIu64 " messages received, %" PRIu64 " MB; %" PRIu64
                " frames lost, %" PRIu64 " iCRC errors, %" PRIu64 " retransmitted, %" PRIu64 " SACKs, %" PRIu64
                " NAKs, %" PRIu64 " RNR NAKs, %" PRIu64 " timeouts, %" PRIu64 " reconnects, %" PRIu64
                " engines restarted, %" PRIu64 " leaps of clocks, %" PRIu64 " frames without a buffer, %" PRIu64
                " forged; %.3f s of virtual time, %" PRIu64 " events",
                ops, messages_received, bytes / 1'000'000, lost_frames, icrc_errors, retransmits, sacks, naks, rnr_naks,
                timeouts, reconnects, engines, leaps, rx_dropped, forged, virtual_seconds, events);
  return text;
}

}  // namespace uroce::oracle
