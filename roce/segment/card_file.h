// A member's card as it lies in the member's file: twice, so that one of the two is always whole.
//
// A new version is written over the older of the two, followed by how often the card was written and a checksum. A
// reader takes the newer copy that is whole. So a write that is cut short or refused, because the file system is full
// for example, leaves what was there, no reader ever finds half a card, and the file and its lock, by which the others
// know that the member lives, are never replaced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "segment/member_card.h"

namespace uroce::segment {

/// Writes a card for the `count`th time, from 1 on. Returns an errno, 0 when all of it was written. After a failure the
/// previous card is still there, and the next attempt has the same count.
int write_card(int fd, const MemberCard& card, uint64_t count);

/// The newest card that is whole; nothing when there is none. A file with the text of a card and nothing behind it has
/// one, too.
std::optional<MemberCard> read_card(int fd);

}  // namespace uroce::segment
