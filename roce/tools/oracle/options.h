// What a mixed run is made of. Everything else is drawn from the seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "congestion/config.h"
#include "sim/link.h"
#include "transport/loss_recovery.h"
#include "uroce/types.h"

namespace uroce::oracle {

/// What may go wrong in a drawn run.
enum class Fault : uint8_t {
  kLoss,
  kReorder,
  kDuplicate,
  kCorrupt,
  kBurst,     // Gilbert and Elliott
  kJitter,    //
  kFlap,      // the cable is unplugged for a moment, again and again
  kPause,     // a storm of pause frames in both directions, to engines that obey
  kMarks,     // congestion control, and switches that mark
  kReceives,  // hardly any receives: RNR NAKs all the time; sometimes retries are counted
  kPool,      // a reorder pool of a few packets
  kPort,      // a port that takes nothing for a while
  kLate,      // hosts that come late to their frames and timers
  kBlackout,  // the cable is unplugged for longer than the retries last
  kReset,     // QPs are reset in the middle and connected anew, under the same numbers, with old packets under way
  kRestart,   // QPs vanish and come again under other numbers; the peer is not told
  kEngine,    // the whole engine of a host is destroyed, and a new one made at the same addresses
  kClock,     // a host's clock leaps forward
  kMemory,    // frame buffers run out; small receive queues
  kSpoofer,   // somebody who is not on the path guesses numbers and keys
  kCount,
};
const char* fault_name(Fault fault);
/// "loss,burst".
std::string fault_list(uint32_t bits);
/// A list such as "loss,burst" as bits; false: not all of them are known.
bool parse_faults(std::string_view text, uint32_t& bits);
constexpr uint32_t bit(Fault fault) { return 1u << static_cast<unsigned>(fault); }

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

  // What draw_mixed sets besides.
  bool drawn = false;
  uint32_t faults = 0;  // those that it drew
  uint32_t without = 0;
  CongestionAlgorithm congestion = CongestionAlgorithm::kNone;
  uint32_t reorder_packets = 1024;
  Duration turn_delay{};   // of both hosts; 0: a little
  uint32_t rx_frames = 0;  // that a port's receive queue holds; 0: all that come

  bool has(Fault fault) const { return (faults & bit(fault)) != 0; }
  bool loses() const;
  bool keeps_order() const { return impairments.reorder + impairments.duplicate == 0; }
  /// QPs may honestly give up, and are connected anew.
  bool may_fail() const;

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
  uint64_t reconnects = 0;  // of QPs that gave up, were reset, or vanished
  uint64_t engines = 0;     // that took the place of another
  uint64_t leaps = 0;       // of clocks
  uint64_t rx_dropped = 0;  // by ports without a buffer
  uint64_t forged = 0;      // packets
  uint64_t events = 0;
  double virtual_seconds = 0;
  std::string text() const;
};

MixedReport run_mixed(const MixedOptions& options);

/// Cable, queue pairs, hosts and seed, drawn: each fault from numbers of its own, so leaving out some (`without`, bits)
/// changes none of the others. Where QPs may not give up, the cable is not so bad that eight tries in a row could fail.
MixedOptions draw_mixed(uint64_t seed, uint32_t without = 0);

}  // namespace uroce::oracle
