// Checks the packets of a connection against what its REQ and REP agreed on: which side may send already, to which QP,
// how long a packet may be, how often a request may be retried.
#pragma once

#include <cstdint>
#include <vector>

#include "lint/cm_tracker.h"
#include "lint/finding.h"
#include "lint/flow.h"

namespace uroce::lint {

class CmJudge {
 public:
  /// All outlive it. `current`: the newest flow of each key.
  CmJudge(Flows& flows, const FlowIndex& current, Findings& findings)
      : flows_(flows), current_(current), findings_(findings) {}

  /// Both QPs are known; called before the flows of the connection are made.
  void check_early(const CmTracker::Connection& connection);
  /// The flows to the two QPs.
  void agree(const CmTracker::Connection& connection, uint32_t to_active, uint32_t to_passive);
  /// The side that connects has sent the RTU.
  void confirm(const CmTracker::Connection& connection);
  /// A DREQ was seen.
  void end(const CmTracker::Connection& connection);
  /// A packet of a connected service, before its flow's channel sees it.
  void on_packet(uint32_t index, const Packet& packet);
  void finish(const std::vector<CmTracker::Doubt>& doubts);

 private:
  void check_early_to(const CmTracker::Connection& connection, const FlowEnds& key);
  Flow* find_agreed(const CmTracker::End& from, const CmTracker::End& to);
  void judge_destinations();
  void judge_doubts(const std::vector<CmTracker::Doubt>& doubts);

  Flows& flows_;
  const FlowIndex& current_;
  Findings& findings_;
  std::vector<Issue> issues_;
};

}  // namespace uroce::lint
