// What a member tells the others of itself: a short text in its file in the segment's directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "uroce/address.h"

namespace uroce::segment {

/// A number that no other member ever has; 0: none.
using MemberId = uint64_t;

/// Queue pair numbers are given to members in blocks of 2^kQpnBlockBits.
inline constexpr uint32_t kQpnBlockBits = 12;
inline constexpr uint32_t kQpnBlocks = 1u << (24 - kQpnBlockBits);

struct MemberCard {
  std::string host;  // the name of the host that it belongs to
  MacAddress mac;    // of that host
  std::vector<LocalAddress> addresses;
  std::vector<uint32_t> blocks;  // of queue pair numbers of the host, that are this member's
  int pid = 0;                   // as the member sees it; for people
  std::string program;           // likewise

  bool operator==(const MemberCard&) const = default;
};

std::string to_text(const MemberCard& card);
/// Nothing when the text is not a whole card.
std::optional<MemberCard> parse_card(std::string_view text);

/// 1 to 32 letters, digits, '-', '_', '.' or '@'; the first is a letter or a digit.
bool valid_host_name(std::string_view name);

/// The longest card that anybody reads.
inline constexpr size_t kCardBytesMax = 64 * 1024;

}  // namespace uroce::segment
