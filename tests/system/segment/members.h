// The members of the segment that is scribbled on.
#pragma once

#include <unistd.h>

#include <string>

#include "segment/member_card.h"

namespace uroce::segment::test {

inline MemberCard card_of(const std::string& host, uint8_t number) {
  MemberCard card;
  card.host = host;
  card.mac = {{0x02, 0x75, 0, 0, 0, number}};
  card.addresses = {*parse_local_address("10.0.0." + std::to_string(number) + "/24")};
  card.pid = getpid();
  card.program = "scribbles";
  return card;
}

/// Two of them are a host.
inline MemberCard card_of_victim(uint32_t number) {
  return card_of(number < 2 ? "one" : "two", static_cast<uint8_t>(1 + number / 2));
}

}  // namespace uroce::segment::test
