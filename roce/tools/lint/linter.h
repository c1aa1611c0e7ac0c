// Judges a capture, frame by frame.
//
//   Linter linter(options);
//   while (reader.next(frame)) linter.on_frame(frame);
//   linter.finish();
//   linter.findings(), linter.flows(), linter.totals()
//
// A flow is all packets from one address to a QP of another; two flows that answer each other are a connection. Memory
// grows with the number of flows, not with the length of the capture.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lint/channel.h"
#include "lint/cm_judge.h"
#include "lint/cm_tracker.h"
#include "lint/finding.h"
#include "lint/flow.h"
#include "lint/packet.h"

namespace uroce::lint {

struct LintOptions {
  uint32_t findings_per_rule = 1000;  // how many are kept; the others are only counted
  uint32_t max_flows = 1u << 18;      // packets of further ones are judged alone
  bool lossy_capture = false;         // the capture is known to lack frames
};

struct Totals {
  uint64_t frames = 0;
  uint64_t packets = 0;  // RoCEv2 packets that a receiver takes
  uint64_t faulty = 0;
  uint64_t other = 0;         // not RoCEv2
  uint64_t cut = 0;           // RoCEv2 whose headers were not captured
  uint64_t without_flow = 0;  // beyond LintOptions::max_flows
  std::array<uint64_t, 256> opcodes{};
};

class Linter {
 public:
  explicit Linter(const LintOptions& options = {});

  void ignore(Rule rule) { findings_.ignore(rule); }
  void on_frame(const pcap::Frame& frame);
  /// Call it once, after the last frame: some findings are known only then.
  void finish();

  const Findings& findings() const { return findings_; }
  const Flows& flows() const { return flows_; }
  const Totals& totals() const { return totals_; }
  /// The packet of the newest frame, for printing what was decoded; nullptr when it was not RoCEv2.
  const Packet* newest_packet() const { return newest_ == Dissection::kPacket ? &packet_ : nullptr; }

 private:
  uint32_t find_flow(const Packet& packet) const;
  uint32_t flow_of(const Packet& packet);
  uint32_t make_flow(const FlowEnds& key);
  void report_issues(uint32_t flow);
  void count(Flow& flow, const Packet& packet);
  void on_packet(uint32_t index, const Packet& packet);
  bool check_service(uint32_t& index, const Packet& packet);
  void check_identity(uint32_t index, const Packet& packet);
  uint32_t on_request(uint32_t index, const Packet& packet);
  void on_response(uint32_t index, const Packet& packet);
  void on_cnp(uint32_t index, const Packet& packet);
  void on_cm(uint32_t index, const Packet& packet);
  void connect(const CmTracker::Connection& connection);
  void join_channel(Flow& flow, uint32_t partner);
  void pair(uint32_t request_flow, uint32_t response_flow);
  uint32_t find_partner(const Flow& responses, const Packet& packet);
  void note_stray(Flow& responses, const Packet& packet);
  void judge_stray(uint32_t index);
  void begin_channel(uint32_t index);
  void judge_pkeys(uint32_t index);

  LintOptions options_;
  Findings findings_;
  Totals totals_;
  Flows flows_;
  FlowIndex current_;
  std::unordered_map<PairKey, std::vector<uint32_t>, PairKeyHash> unpaired_;  // flows with requests
  std::unordered_map<PairKey, std::vector<uint32_t>, PairKeyHash> paired_;
  uint64_t search_credit_ = 400'000'000;  // looking for partners takes only a few steps per frame
  CmTracker cm_;
  CmJudge cm_judge_{flows_, current_, findings_};
  Packet packet_;
  Dissection newest_ = Dissection::kOther;
  std::vector<Issue> issues_;
};

}  // namespace uroce::lint
