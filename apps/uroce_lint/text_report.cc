#include <cinttypes>
#include <cstdio>

#include "report.h"

namespace uroce::lint_app {
namespace {

using lint::ChannelStatistics;
using lint::Flow;
using lint::FlowStatistics;

const char* plural(uint64_t n) { return n == 1 ? "" : "s"; }

void print_requests(const lint::Channel& channel) {
  const ChannelStatistics& s = channel.statistics();
  std::printf("    requests %" PRIu64 ", retransmitted %" PRIu64 ", late %" PRIu64 ", missing PSNs %" PRIu64,
              s.requests, s.retransmitted, s.late, s.missing);
  if (channel.path_mtu() != 0) std::printf(", path MTU %u", channel.path_mtu());
  std::printf("\n    went back: NAK %" PRIu64 ", RNR %" PRIu64 ", READ response missing %" PRIu64 ", timeout %" PRIu64,
              s.back_for_nak, s.back_for_rnr, s.back_for_read, s.timeouts);
  if (s.timeouts != 0 && s.timeout_max_ns != 0) {
    std::printf(" (after %.3f to %.3f ms)", static_cast<double>(s.timeout_min_ns) / 1e6,
                static_cast<double>(s.timeout_max_ns) / 1e6);
  }
  if (s.back_for_sack != 0) std::printf(", SACK %" PRIu64, s.back_for_sack);
  std::printf("\n    answered with: ACK %" PRIu64 ", RNR NAK %" PRIu64, s.acks, s.rnr_naks);
  static constexpr const char* kCodes[] = {"sequence", "invalid request", "remote access", "remote operational",
                                           "invalid RD request"};
  for (size_t i = 0; i < s.naks.size(); i++) {
    if (s.naks[i] != 0) std::printf(", NAK (%s) %" PRIu64, kCodes[i], s.naks[i]);
  }
  if (s.sacks != 0) std::printf(", SACK %" PRIu64, s.sacks);
  std::printf("\n");
}

void print_flow(const lint::Linter& linter, uint32_t index) {
  const Flow& flow = linter.flows()[index];
  const FlowStatistics& s = flow.statistics;
  std::printf("  %s: %" PRIu64 " packet%s, %" PRIu64 " bytes, frames %" PRIu64 " to %" PRIu64 "\n",
              flow_text(linter, index).c_str(), s.packets, plural(s.packets), s.payload_bytes, s.first_frame,
              s.last_frame);
  std::printf("   ");
  for (const auto& [opcode, count] : s.opcodes) std::printf(" %s %" PRIu64, opcode_name(opcode), count);
  std::printf("\n");
  if (s.ecn_capable + s.ecn_marked + s.cnps + s.faulty != 0) {
    std::printf("    ECN capable %" PRIu64 ", marked %" PRIu64 ", CNP %" PRIu64 ", faulty %" PRIu64 "\n", s.ecn_capable,
                s.ecn_marked, s.cnps, s.faulty);
  }
  if (flow.channel != nullptr && flow.channel->statistics().requests != 0) print_requests(*flow.channel);
}

}  // namespace

std::string flow_text(const lint::Linter& linter, uint32_t flow) {
  if (flow == lint::kNoFlow) return "-";
  const lint::FlowEnds& key = linter.flows()[flow].key;
  char number[16];
  std::snprintf(number, sizeof number, "0x%x", key.dest_qp);
  return to_string(key.src) + " -> " + to_string(key.dst) + " QP " + number;
}

void print_findings(const Report& report) {
  for (const lint::Finding& finding : report.linter.findings().kept()) {
    const lint::RuleInfo& rule = lint::rule_info(finding.rule);
    std::printf("%s:%" PRIu64 ": %s: %s (%s) [%s] %s\n", report.path.c_str(), finding.frame,
                lint::severity_name(finding.severity), finding.text.c_str(), rule.why, rule.id,
                flow_text(report.linter, finding.flow).c_str());
  }
  for (unsigned i = 0; i < lint::kRuleCount; i++) {
    const auto rule = static_cast<lint::Rule>(i);
    uint64_t kept = 0;
    for (const lint::Finding& finding : report.linter.findings().kept()) kept += finding.rule == rule;
    const uint64_t more = report.linter.findings().count(rule) - kept;
    if (more != 0) {
      std::printf("%s: %" PRIu64 " more [%s]\n", report.path.c_str(), more, lint::rule_info(rule).id);
    }
  }
}

std::vector<std::pair<uint32_t, uint32_t>> connections_of(const lint::Linter& linter) {
  const auto& flows = linter.flows();
  std::vector<bool> taken(flows.size());
  std::vector<std::pair<uint32_t, uint32_t>> found;
  for (uint32_t i = 0; i < flows.size(); i++) {
    if (taken[i]) continue;
    uint32_t partner = flows[i].partner;
    // When another QP got the number of a flow's QP, the flow that answered the earlier one no longer names it.
    const bool answers = partner != lint::kNoFlow && !taken[partner] &&
                         (flows[partner].partner == i || flows[partner].partner == lint::kNoFlow);
    if (!answers) partner = lint::kNoFlow;
    const uint64_t packets = flows[i].statistics.packets + (answers ? flows[partner].statistics.packets : 0);
    if (packets == 0) continue;
    taken[i] = true;
    if (answers) taken[partner] = true;
    found.emplace_back(i, partner);
  }
  return found;
}

void print_summary(const Report& report) {
  for (const auto& [flow, partner] : connections_of(report.linter)) {
    std::printf("%s\n", partner != lint::kNoFlow ? "connection" : "flow (no other direction known)");
    print_flow(report.linter, flow);
    if (partner != lint::kNoFlow) print_flow(report.linter, partner);
  }
}

void print_totals(const Report& report) {
  const lint::Totals& t = report.linter.totals();
  const lint::Findings& f = report.linter.findings();
  std::printf("%s: %" PRIu64 " frame%s, %" PRIu64 " RoCEv2 packet%s", report.path.c_str(), t.frames, plural(t.frames),
              t.packets, plural(t.packets));
  if (t.faulty != 0) std::printf(", %" PRIu64 " faulty", t.faulty);
  if (t.cut != 0) std::printf(", %" PRIu64 " cut short by the capture", t.cut);
  if (t.other != 0) std::printf(", %" PRIu64 " other", t.other);
  if (t.without_flow != 0) std::printf(", %" PRIu64 " judged alone (too many flows)", t.without_flow);
  if (report.lost_frames != 0) std::printf(", %" PRIu64 " lost by the capture", report.lost_frames);
  const uint64_t errors = f.count(lint::Severity::kError);
  const uint64_t warnings = f.count(lint::Severity::kWarning);
  const uint64_t notes = f.count(lint::Severity::kNote);
  std::printf("; %" PRIu64 " error%s, %" PRIu64 " warning%s, %" PRIu64 " note%s\n", errors, plural(errors), warnings,
              plural(warnings), notes, plural(notes));
}

void print_rules() {
  for (unsigned i = 0; i < lint::kRuleCount; i++) {
    const lint::RuleInfo& rule = lint::rule_info(static_cast<lint::Rule>(i));
    std::printf("%-24s %-8s %s: %s\n", rule.id, lint::severity_name(rule.severity), rule.what, rule.why);
  }
}

}  // namespace uroce::lint_app
