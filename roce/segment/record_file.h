// A member's record as it lies in the member's file: twice, so that one of the two is always whole.
//
// A new version is written over the older of the two, followed by how often the record was written and a checksum. A
// reader takes the newer copy that is whole. So a write that is cut short or refused, because the file system is full
// for example, leaves what was there, no reader ever finds half a record, and the file and its lock, by which the
// others know that the member lives, are never replaced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "segment/member_record.h"

namespace uroce::segment {

/// Writes a record for the `count`th time, from 1 on. Returns an errno, 0 when all of it was written. After a failure
/// the previous record is still there, and the next attempt has the same count.
int write_record(int fd, const MemberRecord& record, uint64_t count);

/// The newest record that is whole; nothing when there is none. A file with the text of a record and nothing behind it
/// has one, too.
std::optional<MemberRecord> read_record(int fd);

}  // namespace uroce::segment
