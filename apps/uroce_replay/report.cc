#include "report.h"

#include <algorithm>
#include <cstdio>

namespace uroce::replay_app {
namespace {

using replay::ReplayOutcome;
using replay::Role;
using replay::RoleResult;
using Ull = unsigned long long;

void print_difference(const replay::Difference& difference) {
  std::string where = difference.frame != 0 ? "frame " + std::to_string(difference.frame) : "";
  if (difference.because != 0)
    where += (where.empty() ? "after frame " : ", after frame ") + std::to_string(difference.because);
  std::printf("  %s: %s\n", where.c_str(), difference.title.c_str());
  size_t width = 8;
  for (const replay::FieldPair& row : difference.rows) width = std::max(width, row.recorded.size());
  std::printf("    %-15s %-*s  ours\n", "", static_cast<int>(width), "recorded");
  for (const replay::FieldPair& row : difference.rows) {
    std::printf("  %s %-15s %-*s  %s\n", row.same ? " " : "*", row.field.c_str(), static_cast<int>(width),
                row.recorded.c_str(), row.ours.c_str());
    if (!row.same && *row.rule != '\0') std::printf("      rule: %s\n", row.rule);
  }
  for (const std::string& reason : difference.reasons) std::printf("    our engine says: %s\n", reason.c_str());
}

}  // namespace

void add(const RoleResult& result, Totals& totals) {
  totals.same += result.outcome == ReplayOutcome::kSame;
  totals.different += result.outcome == ReplayOutcome::kDifferent;
  totals.not_replayed += result.outcome == ReplayOutcome::kSkipped;
  totals.compared += result.compared;
  totals.differences += result.differences.size();
}

void add(const replay::Recording& recording, Totals& totals) {
  totals.homeless += recording.homeless;
  totals.cm_packets += recording.cm_packets;
  totals.cnps += recording.cnps;
}

void print_tolerances() {
  for (const replay::ToleranceInfo& tolerance : replay::tolerances()) {
    std::printf("%-16s %-10s %s %s\n", tolerance.name, tolerance.role, tolerance.counted ? "counted" : "always ",
                tolerance.text);
  }
}

void print_result(const ResultStyle& style, const std::string& name, const char* what, Role role,
                  const RoleResult& result) {
  std::printf("%s as %s: ", name.c_str(), role == Role::kRequester ? "requester" : "responder");
  if (result.outcome == ReplayOutcome::kSkipped) {
    std::printf("not replayed: %s\n", result.why.c_str());
    return;
  }
  std::printf("%s, %llu %s compared, %llu handed in", result.outcome == ReplayOutcome::kSame ? "same" : "DIFFERENT",
              static_cast<Ull>(result.compared), what, static_cast<Ull>(result.injected));
  if (!result.differences.empty()) std::printf(", %zu differences", result.differences.size());
  const char* before = "; tolerances: ";
  for (const replay::ToleranceInfo& tolerance : replay::tolerances()) {
    const uint64_t used = result.used.count(tolerance.tolerance);
    if (used == 0) continue;
    std::printf("%s%s %llu", before, tolerance.name, static_cast<Ull>(used));
    before = ", ";
  }
  std::printf("\n");
  if (style.verbose) {
    for (const std::string& learned : result.learned) std::printf("    learned: %s\n", learned.c_str());
    for (const uint64_t frame : result.lost_frames)
      std::printf("    taken as lost: frame %llu\n", static_cast<Ull>(frame));
  }
  uint32_t shown = 0;
  for (const replay::Difference& difference : result.differences) {
    if (shown++ == style.differences) {
      std::printf("  ... and %zu more\n", result.differences.size() - style.differences);
      break;
    }
    print_difference(difference);
  }
}

void print_left_out(const replay::Recording& recording) {
  if (recording.cm_packets != 0) {
    std::printf("%llu MADs to QP 1 of no exchange whose beginning is there: decoded and skipped\n",
                static_cast<Ull>(recording.cm_packets));
  }
  if (recording.cnps != 0) std::printf("%llu CNPs: skipped\n", static_cast<Ull>(recording.cnps));
  if (recording.homeless != 0) {
    std::printf("%llu packets of no conversation: skipped\n", static_cast<Ull>(recording.homeless));
  }
}

void print_totals(const Totals& totals) {
  std::printf("total: %llu same, %llu different, %llu not replayed; %llu packets compared, %llu differences",
              static_cast<Ull>(totals.same), static_cast<Ull>(totals.different), static_cast<Ull>(totals.not_replayed),
              static_cast<Ull>(totals.compared), static_cast<Ull>(totals.differences));
  std::printf("; skipped packets: %llu of no conversation, %llu CM, %llu CNP\n", static_cast<Ull>(totals.homeless),
              static_cast<Ull>(totals.cm_packets), static_cast<Ull>(totals.cnps));
}

}  // namespace uroce::replay_app
