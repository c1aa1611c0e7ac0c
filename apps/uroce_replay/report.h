// What uroce-replay prints.
#pragma once

#include <string>

#include "replay/replay.h"
#include "replay/tolerances.h"

namespace uroce::replay_app {

/// The totals of all captures.
struct Totals {
  uint64_t same = 0;  // conversations, counted once for each role
  uint64_t different = 0;
  uint64_t not_replayed = 0;
  uint64_t compared = 0;  // packets
  uint64_t differences = 0;
  uint64_t homeless = 0;  // packets of no conversation
  uint64_t cm_packets = 0;
  uint64_t cnps = 0;
};
void add(const replay::RoleResult& result, Totals& totals);
void add(const replay::Recording& recording, Totals& totals);

struct ResultStyle {
  bool verbose = false;
  uint32_t differences = 10;  // how many are shown
};

void print_tolerances();
void print_left_out(const replay::Recording& recording);
/// `what`: "packets", or "messages" of connection management.
void print_result(const ResultStyle& style, const std::string& name, const char* what, replay::Role role,
                  const replay::RoleResult& result);
/// Prints the last line, with the totals.
void print_totals(const Totals& totals);

}  // namespace uroce::replay_app
