// What a mixed run is made of. Everything else is drawn from the seed.
#pragma once

#include <cstdint>
#include <string>

#include "sim/link.h"
#include "transport/loss_recovery.h"
#include "transport/types.h"

namespace uroce::sim {

struct MixedOptions {
  QpType type = QpType::kRc;
  uint64_t seed = 1;
  uint64_t ops = 10'000;  // both directions and all QPs together
  uint32_t mtu = 0;       // 0: drawn for each QP
  uint32_t qps = 3;       // pairs
  uint32_t max_bytes = 256 * 1024;
  uint32_t small_bytes = 0;  // not 0: no message is longer, whatever max_bytes says (for many messages)
  fabric::ImpairmentConfig impairments = {};         // copies come within the span of reordering
  LossRecovery recovery_a = LossRecovery::kGoBackN;  // of either host
  LossRecovery recovery_b = LossRecovery::kGoBackN;
  bool trace = false;  // every frame to stderr

  /// The command that repeats the run.
  std::string command() const;
};

/// How a run went. `failure` is empty when every check held.
struct MixedReport {
  std::string failure;
  uint64_t ops = 0;
  uint64_t bytes = 0;
  uint64_t messages_received = 0;
  uint64_t retransmits = 0;
  uint64_t sacks = 0;
  uint64_t naks = 0;
  uint64_t rnr_naks = 0;
  uint64_t timeouts = 0;
  uint64_t icrc_errors = 0;
  uint64_t lost_frames = 0;
  uint64_t events = 0;
  double virtual_seconds = 0;
  std::string text() const;
};

MixedReport run_mixed(const MixedOptions& options);

/// Cable, queue pairs and seed, drawn. Not so bad a cable that eight tries in a row could honestly fail.
MixedOptions draw_mixed(uint64_t seed);

}  // namespace uroce::sim
