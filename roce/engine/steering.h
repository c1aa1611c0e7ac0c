// Which frames raw packet queue pairs get: by the flows that programs made, in the order of their priorities.
//
// RoCEv2 (UDP port 4791) and pause frames are the engine's: no flow takes or drops them, as on NICs, whose own traffic
// is steered first. ARP, neighbour discovery and group queries go to both: the engine uses them, and flows that match
// get a copy. All other frames go to flows only.
//
// Of the normal flows, those of the lowest priority number that match get the frame, each a copy; a flow that drops
// hides the frame from those behind it. A flow that does not trap lets flows of a higher number see the frame, too.
// Frames that no normal flow takes go to the default flows: for multicast, or for all. A sniffer gets a copy of every
// frame, RoCEv2 included.
//
// The number of flows is bounded. Normal ones are found by their masks (flow_rule_index.h); all others see every frame
// anyway. Nothing is allocated for a frame.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/flow_rule_index.h"
#include "engine/loopback.h"
#include "engine/port_filters.h"
#include "engine/qp_schedule.h"
#include "packet/flow_key.h"
#include "packet/rss.h"
#include "transport/counters.h"
#include "transport/qp.h"
#include "transport/raw_frame.h"
#include "uroce/address.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

/// What a flow counts; it belongs to the creator of the flow.
struct FlowCounter {
  uint64_t packets = 0;
  uint64_t bytes = 0;
};

/// Queue pairs that share frames by their hash.
struct RssGroup {
  std::vector<Qp*> table;  // 2^n entries; nullptr: what falls here is dropped
  RssKey key{};
  uint32_t fields = 0;  // RssField
};

enum class FlowRuleKind : uint8_t { kNormal, kAllDefault, kMulticastDefault, kSniffer };

struct FlowRule {
  FlowRuleKind kind = FlowRuleKind::kNormal;
  uint16_t priority = 0;
  FlowMatch match;
  bool traps = true;  // flows of lower priority do not see the frames that this one takes
  bool drops = false;
  uint32_t tag = 0;
  std::vector<FlowCounter*> counters;
  Qp* qp = nullptr;
  const RssGroup* group = nullptr;  // used in place of a queue pair
};

class Steering {
 public:
  static constexpr uint32_t kFlowsMax = 16384;
  /// With flows for more MACs than these, all frames are asked for.
  static constexpr size_t kMacsMax = 64;

  /// All outlive the steering. `filter`: nullptr if the port passes on everything.
  Steering(Loopback& loopback, QpSchedule& schedule, Counters& counters, RawFilter* filter)
      : loopback_(loopback), schedule_(schedule), counters_(counters), filter_(filter) {}

  /// nullptr: there are too many. The flow is the steering's until it is removed.
  FlowRule* add(const FlowRule& flow);
  void remove(const FlowRule& flow);
  /// To be called before a queue pair is destroyed: flows and groups that led to it drop.
  void forget(const Qp& qp);
  /// Registers a group, so that `forget` finds queue pairs in its table.
  void add_group(RssGroup& group) { groups_.push_back(&group); }
  void remove_group(RssGroup& group) { std::erase(groups_, &group); }
  size_t size() const { return flows_.size(); }

  /// Takes a frame that is not for the engine alone. True when a flow took it.
  bool on_frame(const RxFrame& frame, Instant now);
  /// Whether sniffers want to see the engine's frames.
  bool sniffs() const { return sniffers_ != 0; }
  void sniff(const RxFrame& frame, Instant now);
  /// Whether frames that we send to this MAC are also for our own flows. `own`: our MAC.
  bool takes_own(const MacAddress& dst, const MacAddress& own) const;

 private:
  struct Arrival {
    RawFrame frame;
    FlowKey key;
    uint32_t bytes;
    Instant now;
  };
  static Arrival arrival_of(const RxFrame& frame, Instant now);
  bool take_normal(const Arrival& arrival);
  bool take_default(const Arrival& arrival);
  void count(const FlowRule& flow, const Arrival& arrival);
  void deliver(const FlowRule& flow, const Arrival& arrival);
  Qp* target_of(const FlowRule& flow, const Arrival& arrival) const;
  void tell_filter();

  Loopback& loopback_;
  QpSchedule& schedule_;
  Counters& counters_;
  RawFilter* const filter_;
  std::vector<std::unique_ptr<FlowRule>> flows_;  // by kind, then by priority, then as they were made
  FlowRuleIndex index_;                           // of the normal ones
  std::vector<RssGroup*> groups_;
  std::vector<MacAddress> macs_;  // the MACs that flows name
  bool all_ = false;              // some flow names none
  uint32_t sniffers_ = 0;
};

}  // namespace uroce
