// The PSNs of one direction as far as they were seen: where it began, where it stands, what was acknowledged.
#pragma once

#include <cstdint>

#include "uroce/psn.h"

namespace uroce::lint {

/// A distance in PSNs. A greater distance is not explained by losses: it is another life of the QP number, or a wrong
/// PSN.
inline constexpr int32_t kFar = 16384;

struct Numbers {
  enum class Beginning : uint8_t {
    kNothing,    // no request came yet
    kAnywhere,   // the capture begins somewhere in the conversation
    kAgreed,     // connection management named the first PSN, and no request came yet
    kFromStart,  // connection management named it, and requests followed
  };

  Beginning beginning = Beginning::kNothing;
  Psn first;                  // earlier PSNs were sent before the capture
  Psn next;                   // the PSN after everything that was sent
  Psn position;               // the PSN after the newest packet
  Psn acked;                  // everything before was acknowledged, as far as the capture shows
  bool acknowledged = false;  // something was acknowledged
  bool tip_open = false;      // the newest request is a READ that may take more PSNs, as the path MTU is not known

  bool started() const { return beginning != Beginning::kNothing; }
  /// True when the very first PSN of the connection is known.
  bool from_start() const { return beginning == Beginning::kAgreed || beginning == Beginning::kFromStart; }
  bool awaits_start() const { return beginning == Beginning::kAgreed; }
  bool is_far(Psn psn) const { return distance(next, psn) > kFar || distance(psn, acked) > kFar; }

  void start(Psn psn, Beginning how) {
    beginning = how;
    first = next = position = acked = psn;
  }
  /// The first request came.
  void leave_start() {
    if (awaits_start()) beginning = Beginning::kFromStart;
  }

  /// As long as the path MTU is not known, a READ takes anything up to the next PSN that is seen: packets may be
  /// missing in between, so this proves nothing.
  void resolve_tip(Psn psn) {
    if (tip_open && distance(next, psn) >= 0) close_tip(psn);
  }
  void close_tip(Psn end) {
    tip_open = false;
    next = position = end;
  }

  /// Everything up to `psn` reached the responder.
  void acknowledge(Psn psn) {
    acknowledged = true;
    if (distance(acked, psn) >= 0) acked = psn + 1;
  }
  /// A request with an earlier PSN than all others came: what was sent reaches further back.
  void extend_back(Psn psn) {
    if (distance(psn, first) <= 0) return;
    first = psn;
    if (!acknowledged) acked = psn;
  }
  /// If no acknowledgements are seen, the oldest PSNs are forgotten, so that "before" keeps its meaning.
  void keep_in_half_circle() {
    constexpr int32_t kHalf = 1 << 22;
    if (distance(acked, next) > kHalf || distance(acked, next) < 0) acked = next - kHalf;
    if (distance(first, next) > kHalf || distance(first, next) < 0) first = next - kHalf;
  }
};

/// True when `psn` is among the `span` PSNs from `begin` on.
constexpr bool covers(Psn begin, uint32_t span, Psn psn) {
  const int32_t d = distance(begin, psn);
  return d >= 0 && static_cast<uint32_t>(d) < span;
}

}  // namespace uroce::lint
