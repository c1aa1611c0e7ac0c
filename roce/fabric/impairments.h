// Everything that can go wrong on one direction of a cable.
//
// The code that moves frames along the cable asks for each one what becomes of it: `on_frame` returns no frame, one, or
// several, each with a delay to be added to the cable's own. `Impairments` keeps no frames itself; a polled loop keeps
// delayed ones in a `DelayLine`. Random faults come from the seed, each kind from a stream of its own: so switching
// duplication on does not change which frames are lost.
//
// A frame passes through these in this order: exact rules, interruptions, random loss, burst loss, corruption,
// duplication, jitter, reordering.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "fabric/fault_rule.h"
#include "fabric/frame.h"
#include "packet/mac_control.h"
#include "uroce/time.h"

namespace uroce::fabric {

/// The channel of Gilbert and Elliott: two states with their own loss rates. Before each frame the state changes with
/// probability `to_bad` or `to_good`. Bursts last 1 / to_good frames on average.
struct BurstLoss {
  double to_bad = 0;  // 0: always good, so no burst loss
  double to_good = 1;
  double loss_when_good = 0;
  double loss_when_bad = 1;
};

/// [from, from + length), and again every `period` when that is not zero. Times count from the start that the
/// `Impairments` were given.
struct Interval {
  Duration from{};
  Duration length{INT64_MAX};
  Duration period{};

  bool contains(Duration since_start) const;
};

/// Pause frames that the neighbour did not send come out of the cable, as a broken NIC would send them.
struct PauseStorm {
  uint8_t priorities = 0xff;
  uint16_t quanta = kMaxPauseQuanta;
  Duration from{};
  Duration length{INT64_MAX};
  Duration every = microseconds(100);
};

/// Probabilities are per frame, from 0 to 1.
struct ImpairmentConfig {
  double loss = 0;
  BurstLoss burst{};
  double corrupt = 0;  // flips one to three bits of an IP packet; frames without a checksum (ARP) stay intact
  double duplicate = 0;
  Duration duplicate_span = microseconds(20);  // the copy comes up to this much later
  double reorder = 0;
  Duration reorder_span = microseconds(20);  // such a frame comes up to this much later, so that others overtake it
  Duration jitter{};                         // every frame comes up to this much later, without overtaking
  /// When the faults above are on; rules and interruptions have their own times.
  Interval active{};
  std::vector<Interval> down{};  // the cable is unplugged: everything is lost
  std::vector<PauseStorm> pause_storms{};
  std::vector<FaultRule> rules{};

  bool empty() const;
};

/// One fault a line (or separated by ';'); '#' begins a comment:
///
///     loss 1%
///     burst-loss to-bad=0.1% to-good=30% bad=100% good=0
///     corrupt 1e-4
///     duplicate 1% within 20us
///     reorder 5% within 50us
///     jitter 3us
///     active from 1ms for 10ms
///     down from 10ms for 2ms every 100ms
///     pause-storm prio=3 quanta=65535 from 1ms for 5ms every 100us
///     drop 2nd psn=77 qp=0x12
///     drop 1st ack            drop all cnp           drop every 100 data
///     delay 3-5 read-response qp=9 by 50us
///     duplicate 1st request by 5us
///     corrupt 1st opcode=0x04
///     mark 2- data
///
/// A rule is: what to do, which of the frames that fit (`2`, `2nd`, `2-4`, `2-`, `all`, `every 100`; the first when
/// nothing is said), what fits (a class, `psn=`, `qp=`; every frame when nothing is said), and for `delay` and
/// `duplicate` how much later (`by`). Classes: any roce request response data send write read-request read-response
/// atomic atomic-ack ack nak rnr-nak cnp opcode=N. Without a `for`, a cable stays `down` for ever, and a storm lasts
/// for ever.
///
/// Adds to `config`. Returns an empty string, or what is wrong and where.
std::string parse_impairments(std::string_view text, ImpairmentConfig& config);
/// The same for one fault, without a separator. The error has no line number.
std::string parse_impairment(std::string_view statement, ImpairmentConfig& config);
/// One line of text from which parse_impairments makes the same configuration.
std::string to_text(const ImpairmentConfig& config);

struct ImpairmentCounters {
  uint64_t frames = 0;
  uint64_t bytes = 0;
  uint64_t lost = 0;
  uint64_t lost_in_burst = 0;
  uint64_t lost_while_down = 0;
  uint64_t corrupted = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t dropped_by_rule = 0;
  uint64_t delayed_by_rule = 0;
  uint64_t duplicated_by_rule = 0;
  uint64_t corrupted_by_rule = 0;
  uint64_t marked_by_rule = 0;
  uint64_t pauses_injected = 0;
  uint64_t no_frame_memory = 0;  // a copy or a pause frame could not be made
};

/// A frame that arrives, and how much later than without faults.
struct Delivery {
  FabricFrame frame;
  Duration delay{};
};

class Impairments {
 public:
  static constexpr uint32_t kMaxDeliveries = 8;

  /// `random` is used only in the constructor. The times of the configuration count from `start`.
  Impairments(const ImpairmentConfig& config, FramePool& pool, RandomSource& random, Instant start);

  /// False when no fault is configured, so that on_frame would let every frame pass.
  bool active() const { return active_; }
  /// The frame enters the cable at `now`, and no longer belongs to the caller. Returns how many frames were written to
  /// `out`; these belong to the caller. The original is the first of them, if it survives.
  uint32_t on_frame(FabricFrame frame, Instant now, std::span<Delivery, kMaxDeliveries> out);
  /// True when the cable is unplugged at this moment.
  bool is_down(Instant now) const;

  /// When to call `poll_injected` for the next frame of a pause storm; Instant::never() when there will be none.
  Instant next_event() const { return next_storm_; }
  /// A pause frame that comes out of the cable at `now`, or a frame without data when none is due (any more).
  FabricFrame poll_injected(Instant now);

  const ImpairmentConfig& config() const { return config_; }
  const ImpairmentCounters& counters() const { return counters_; }
  /// How many frames fitted rule `index`, and on how many the rule acted.
  uint64_t rule_fits(size_t index) const { return rules_[index].fits; }
  uint64_t rule_hits(size_t index) const { return rules_[index].hits; }

 private:
  /// A probability in units of 1/2^32, so that no floating point is needed per frame.
  class Chance {
   public:
    explicit Chance(double probability);
    bool happens(RandomSource& random) const { return threshold_ != 0 && random.next_u32() < threshold_; }

   private:
    uint64_t threshold_;
  };
  struct RuleState {
    uint64_t fits = 0;
    uint64_t hits = 0;
  };
  /// What the rules ask for this frame.
  struct Verdict {
    bool drop = false;
    uint32_t copies = 0;
    Duration delay{};
    Duration copy_delay{};
  };

  Verdict apply_rules(FabricFrame& frame);
  bool is_lost(Instant now);
  bool burst_loses();
  void corrupt(FabricFrame& frame, SeededRandom& random);
  Duration up_to(Duration span, SeededRandom& random);

  FramePool& pool_;
  ImpairmentConfig config_;
  ImpairmentCounters counters_;
  std::vector<RuleState> rules_;
  std::vector<Instant> storm_next_;
  Instant start_;
  Instant next_storm_ = Instant::never();
  Instant last_out_;
  Chance loss_, corrupt_, duplicate_, reorder_, to_bad_, to_good_, loss_when_good_, loss_when_bad_;
  SeededRandom loss_random_, burst_random_, corrupt_random_, rule_random_, duplicate_random_, reorder_random_,
      jitter_random_;
  bool bad_ = false;
  bool rules_need_roce_ = false;
  bool active_;
};

}  // namespace uroce::fabric
