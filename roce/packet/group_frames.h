// How a host says which multicast groups it wants: IGMP for IPv4 (RFC 2236, RFC 3376), MLD for IPv6 (RFC 2710, RFC
// 3810). Only what a host needs that wants groups from whatever source.
//
// `decode_*` returns nothing for what is no such message, or is malformed. `encode_*` writes a whole frame, padded to
// Ethernet's minimum, and returns its length, or 0 when it does not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "packet/host_frames.h"
#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce {

/// A router, or a switch that listens for groups, asks who wants them.
struct GroupQuery {
  IpAddress group;  // zero, also for IPv4: any
  bool ipv6 = false;
  bool old = false;      // IGMPv2 (or 1), MLDv1: answers have to be as old
  Duration patience{0};  // how long answers may take
};

std::optional<GroupQuery> decode_group_query(const LinkFrame& frame);

enum class GroupNews : uint8_t {
  kWanted,     // an answer
  kJoined,     // it was not wanted before
  kNotWanted,  // any more
};

struct GroupReport {
  GroupNews news = GroupNews::kWanted;
  IpAddress group;
  IpAddress source;  // ours; of IPv6 a link-local one
  bool old = false;
};

/// The frame goes where the protocol wants it.
uint32_t encode_group_report(std::span<uint8_t> out, const MacAddress& src_mac, uint16_t vlan_id,
                             const GroupReport& report);

}  // namespace uroce
