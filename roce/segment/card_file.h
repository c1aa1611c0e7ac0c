// A member's card as it lies in the member's file: twice, so that one of the two is always whole.
//
// What changes is written over the older of the two, behind which stands then how often the card was written and a sum
// of its bytes. Whoever reads takes the newer one that is whole. So a write that is cut short or refused, because the
// file system is full for example, leaves what was there; nobody ever finds half a card; and neither the file nor its
// lock, by which the others know that the member lives, is ever another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "segment/member_card.h"

namespace uroce::segment {

/// Writes a card for the `count`th time, from 1 on. Returns an errno, 0 when all of it was written. After a failure the
/// card before is still there, and the same count is the next one.
int write_card(int fd, const MemberCard& card, uint64_t count);

/// The newest card that is whole; nothing when there is none. A file that has the text of a card, and nothing else, is
/// one.
std::optional<MemberCard> read_card(int fd);

}  // namespace uroce::segment
