// In what a recorded packet and ours may differ without counting as a difference. This table is complete: nothing else
// in roce/tools/replay tolerates a difference.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace uroce::replay {

enum class Tolerance : uint8_t {
  kTime,
  kLinkLayer,
  kIpFields,
  kUdpSourcePort,
  kMigReq,
  kAckReq,
  kAckCoalescing,
  kCredits,
  kLostRequest,
  kLostAnswer,
  kNakAfterRnr,
  kLongSendNak,
  kReadAgainShape,
  kClosed,
  kCmDrawn,
  kCmRepetition,
};
inline constexpr unsigned kToleranceCount = static_cast<unsigned>(Tolerance::kCmRepetition) + 1;

struct ToleranceInfo {
  Tolerance tolerance;
  bool counted;  // each use is counted and shown; the others are fields that are not compared at all
  const char* name;
  const char* role;  // "both", "requester", "responder"
  const char* text;
};

std::span<const ToleranceInfo> tolerances();

/// How often each tolerance was used, and which are not granted at all.
struct ToleranceUse {
  std::array<uint64_t, kToleranceCount> counts{};
  uint32_t withheld = 0;  // bits

  bool grants(Tolerance tolerance) const { return (withheld & bit(tolerance)) == 0; }
  uint64_t count(Tolerance tolerance) const { return counts[static_cast<unsigned>(tolerance)]; }
  static constexpr uint32_t bit(Tolerance tolerance) { return 1u << static_cast<unsigned>(tolerance); }
};
inline void use(ToleranceUse& used, Tolerance tolerance) { used.counts[static_cast<unsigned>(tolerance)]++; }

}  // namespace uroce::replay
