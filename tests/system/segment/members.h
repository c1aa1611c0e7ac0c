// The members of the segment that is scribbled on.
#pragma once

#include <unistd.h>

#include <string>

#include "segment/member_record.h"

namespace uroce::segment::test {

inline MemberRecord record_of(const std::string& host, uint8_t number) {
  MemberRecord card;
  card.host = host;
  card.mac = {{0x02, 0x75, 0, 0, 0, number}};
  card.addresses = {*parse_local_address("10.0.0." + std::to_string(number) + "/24")};
  card.pid = getpid();
  card.program = "scribbles";
  return card;
}

/// Every two victims share a host.
inline MemberRecord card_of_victim(uint32_t number) {
  return record_of(number < 2 ? "one" : "two", static_cast<uint8_t>(1 + number / 2));
}

}  // namespace uroce::segment::test
