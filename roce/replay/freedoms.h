// In what a recorded packet and ours may differ without it being a difference. The whole of it is this table: nothing
// else in roce/replay forgives anything.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace uroce::replay {

enum class Freedom : uint8_t {
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
};
inline constexpr unsigned kFreedomCount = static_cast<unsigned>(Freedom::kClosed) + 1;

struct FreedomInfo {
  Freedom freedom;
  bool counted;  // each use is counted and shown; the others are fields that are not compared at all
  const char* name;
  const char* role;  // "both", "requester", "responder"
  const char* text;
};

std::span<const FreedomInfo> freedoms();

/// How often each was used, and which are not granted at all.
struct FreedomUse {
  std::array<uint64_t, kFreedomCount> counts{};
  uint32_t withheld = 0;  // bits

  bool grants(Freedom freedom) const { return (withheld & bit(freedom)) == 0; }
  uint64_t count(Freedom freedom) const { return counts[static_cast<unsigned>(freedom)]; }
  static constexpr uint32_t bit(Freedom freedom) { return 1u << static_cast<unsigned>(freedom); }
};
inline void use(FreedomUse& used, Freedom freedom) { used.counts[static_cast<unsigned>(freedom)]++; }

}  // namespace uroce::replay
