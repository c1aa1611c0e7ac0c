#include "lint/cm_judge.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "packet/packet.h"

namespace uroce::lint {

/// Packets to a QP of the connection that came between its REQ and its REP.
void CmJudge::check_early_to(const CmTracker::Connection& connection, const FlowEnds& key) {
  const auto found = current_.find(key);
  if (found == current_.end() || flows_[found->second].channel == nullptr) return;
  const uint64_t first = flows_[found->second].statistics.first_frame;
  if (first <= connection.req_frame) return;  // of an earlier life
  findings_.add(Rule::kCmEarlyData, first, found->second, "data between REQ and REP; expected none before the REP");
}

void CmJudge::check_early(const CmTracker::Connection& connection) {
  const CmTracker::End& a = connection.active;
  const CmTracker::End& b = connection.passive;
  check_early_to(connection, {a.ip, b.ip, b.qpn});
  check_early_to(connection, {b.ip, a.ip, a.qpn});
}

void CmJudge::agree(const CmTracker::Connection& connection, uint32_t to_active, uint32_t to_passive) {
  const CmTracker::End& a = connection.active;
  const CmTracker::End& b = connection.passive;
  const uint32_t mtu = connection.path_mtu >= 1 && connection.path_mtu <= 5 ? 128u << connection.path_mtu : kLargestMtu;
  flows_[to_passive].agreement = Agreement({b.starting_psn, mtu, b.rnr_retries, false});
  flows_[to_active].agreement = Agreement({a.starting_psn, mtu, a.rnr_retries, true});
}

Flow* CmJudge::find_agreed(const CmTracker::End& from, const CmTracker::End& to) {
  const auto found = current_.find({from.ip, to.ip, to.qpn});
  if (found == current_.end() || !flows_[found->second].agreement.holds()) return nullptr;
  return &flows_[found->second];
}

void CmJudge::confirm(const CmTracker::Connection& connection) {
  if (Flow* const to_a = find_agreed(connection.passive, connection.active)) to_a->agreement.confirm();
}

void CmJudge::end(const CmTracker::Connection& connection) {
  if (Flow* const to_a = find_agreed(connection.passive, connection.active)) to_a->agreement.end();
  if (Flow* const to_b = find_agreed(connection.active, connection.passive)) to_b->agreement.end();
}

void CmJudge::on_packet(uint32_t index, const Packet& packet) {
  Flow& flow = flows_[index];
  if (!flow.agreement.holds()) return;
  flow.agreement.on_packet(packet, issues_);
  for (Issue& issue : issues_) findings_.add(issue.rule, packet.frame, index, std::move(issue.text));
  issues_.clear();
  if (flow.partner == kNoFlow) return;
  Agreement& back = flows_[flow.partner].agreement;
  back.confirm();
  if (packet.info().is_response()) back.on_answer(packet);
}

/// The agreed QP got no requests, but another QP got requests from the agreed PSN on. With 2^24 PSNs that is no
/// coincidence if the side that chose the PSN draws it at random: a side that begins with 0, or twice with the same
/// PSN, does not. So each PSN of each pair is at most one finding, however many flows a capture has.
void CmJudge::judge_destinations() {
  struct FirstPsn {
    PairKey pair;
    uint32_t psn;
    bool operator==(const FirstPsn&) const = default;
  };
  struct Hash {
    size_t operator()(const FirstPsn& key) const { return PairKeyHash()(key.pair) * 0x9e3779b97f4a7c15 + key.psn; }
  };
  struct Counted {
    uint32_t flow = 0;
    uint32_t flows = 0;
  };
  std::unordered_map<FirstPsn, Counted, Hash> unspoken;  // flows that no REP announced
  std::unordered_map<FirstPsn, uint32_t, Hash> chosen;   // agreements, whatever the other end
  for (uint32_t i = 0; i < flows_.size(); i++) {
    const Flow& flow = flows_[i];
    if (flow.agreement.made()) {
      chosen[{{IpAddress{}, flow.key.dst}, flow.agreement.start().value()}]++;
    } else if (flow.channel != nullptr && flow.statistics.packets != 0) {
      Counted& counted = unspoken[{{flow.key.src, flow.key.dst}, flow.statistics.first_psn.value()}];
      if (counted.flows++ == 0) counted.flow = i;
    }
  }
  for (const Flow& flow : flows_) {
    if (!flow.agreement.made() || flow.statistics.packets != 0) continue;
    const uint32_t psn = flow.agreement.start().value();
    if (psn == 0 || chosen[{{IpAddress{}, flow.key.dst}, psn}] != 1) continue;
    const auto found = unspoken.find({{flow.key.src, flow.key.dst}, psn});
    if (found == unspoken.end() || found->second.flows != 1) continue;
    findings_.add(Rule::kCmDataQp, flows_[found->second.flow].statistics.first_frame, found->second.flow,
                  sentence("requests from PSN %u on, which was agreed for QP 0x%06x; expected them there", psn,
                           flow.key.dest_qp));
  }
}

/// An answer without its request is wrong if the capture shows the direction from which that should have come.
void CmJudge::judge_doubts(const std::vector<CmTracker::Doubt>& doubts) {
  if (doubts.empty()) return;
  std::unordered_set<PairKey, PairKeyHash> shown;
  for (const Flow& flow : flows_) {
    if (flow.statistics.packets != 0) shown.insert({flow.key.src, flow.key.dst});
  }
  for (const CmTracker::Doubt& doubt : doubts) {
    if (!shown.contains({doubt.from, doubt.to})) continue;
    findings_.add(doubt.issue.rule, doubt.frame, doubt.flow, doubt.issue.text);
  }
}

void CmJudge::finish(const std::vector<CmTracker::Doubt>& doubts) {
  judge_destinations();
  judge_doubts(doubts);
}

}  // namespace uroce::lint
