#include "sim/check/options.h"

#include <cinttypes>
#include <cstdio>

namespace uroce::sim {

std::string MixedOptions::command() const {
  char text[400];
  const char* name = type == QpType::kRc ? "rc" : type == QpType::kUc ? "uc" : "ud";
  const auto word = [](LossRecovery recovery) {
    return recovery == LossRecovery::kGoBackN ? "go-back-n" : recovery == LossRecovery::kAuto ? "auto" : "selective";
  };
  std::snprintf(text, sizeof text,
                "uroce-verify --type %s --seed %" PRIu64 " --ops %" PRIu64
                " --mtu %u --qps %u --max %u --small %u --loss %g --reorder %g --dup %g --corrupt %g --span-us %" PRId64
                " --recovery-a %s --recovery-b %s",
                name, seed, ops, mtu, qps, max_bytes, small_bytes, impairments.loss, impairments.reorder,
                impairments.duplicate, impairments.corrupt, impairments.reorder_span.ns / 1000, word(recovery_a),
                word(recovery_b));
  return text;
}

MixedOptions draw_mixed(uint64_t seed) {
  SeededRandom random(seed);
  const auto often = [&](double most) { return random.below(2) == 0 ? 0 : most * random.below(1000) / 1000; };
  MixedOptions options;
  options.seed = seed;
  options.qps = 1 + random.below(6);
  options.impairments.loss = often(0.02);
  options.impairments.reorder = often(0.05);
  options.impairments.duplicate = often(0.1);
  options.impairments.corrupt = often(0.01);
  options.impairments.reorder_span = microseconds(5 + random.below(random.below(4) == 0 ? 1500 : 60));
  return options;
}

std::string MixedReport::text() const {
  char text[512];
  std::snprintf(text, sizeof text,
                "%" PRIu64 " operations, %" PRIu64 " messages received, %" PRIu64 " MB; %" PRIu64
                " frames lost, %" PRIu64 " iCRC errors, %" PRIu64 " retransmitted, %" PRIu64 " SACKs, %" PRIu64
                " NAKs, %" PRIu64 " RNR NAKs, %" PRIu64 " timeouts; %.3f s of virtual time, %" PRIu64 " events",
                ops, messages_received, bytes / 1'000'000, lost_frames, icrc_errors, retransmits, sacks, naks, rnr_naks,
                timeouts, virtual_seconds, events);
  return text;
}

}  // namespace uroce::sim
