// The fields of a frame that a network looks at: addresses, priority bits, the flow, ECN, and for fault rules the RoCE
// header.
//
// This checks much less than `parse_frame`, because a switch also forwards frames that it does not understand, and
// damaged ones. Nothing here fails: missing fields are reported as absent, and no byte outside the frame is read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "packet/headers.h"
#include "packet/network_headers.h"

namespace uroce::fabric {

/// Two bits of the IP header.
enum class Ecn : uint8_t { kNotCapable = 0, kEct1 = 1, kEct0 = 2, kMarked = 3 };

struct FrameFields {
  uint8_t ip_version = 0;  // 4, 6, or 0 when it is neither or too short
  bool tagged = false;     // has an 802.1Q or 802.1ad tag (up to two are skipped)
  uint8_t pcp = 0;         // of the outer tag
  uint8_t traffic_class = 0;
  uint8_t protocol = 0;    // of the IP header
  uint16_t ethertype = 0;  // after the tags
  uint16_t l3_offset = 0;  // of the IP header, when ip_version is not 0
  uint16_t l4_offset = 0;  // 0: there is none, or this is a fragment

  uint8_t dscp() const { return traffic_class >> 2; }
  Ecn ecn() const { return static_cast<Ecn>(traffic_class & 3); }
};

/// `frame` has at least kEthernetBytes.
FrameFields inspect(std::span<const uint8_t> frame);

/// Sets DSCP and ECN and updates the IPv4 header checksum by the difference (RFC 1624), so that a wrong checksum stays
/// wrong. Nothing changes in a frame that is not IP.
void set_traffic_class(std::span<uint8_t> frame, const FrameFields& fields, uint8_t traffic_class);

/// Sets ECN to "congestion experienced". Returns false and changes nothing when the frame is not ECN-capable.
bool mark_congestion(std::span<uint8_t> frame, const FrameFields& fields);

/// A hash that is the same for all frames of a flow: of the IP addresses, the protocol and the ports, or of the MAC
/// addresses when the frame is not IP. Different seeds give independent hashes, so that flows that one switch sends the
/// same way are split again at the next.
uint64_t flow_hash(std::span<const uint8_t> frame, const FrameFields& fields, uint64_t seed);

/// The part of a RoCEv2 packet that fault rules know.
struct RoceFields {
  uint8_t opcode = 0;
  uint8_t syndrome = 0;  // that of the AETH, for opcodes that have one
  uint32_t dest_qp = 0;
  Psn psn;
};

/// Returns nothing when the frame is not a UDP datagram to the RoCE port, or is too short for the headers of its
/// opcode.
std::optional<RoceFields> roce_fields(std::span<const uint8_t> frame, const FrameFields& fields);

}  // namespace uroce::fabric
