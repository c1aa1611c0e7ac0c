// Between Ethernet frames, which an ethdev has, and UDP datagrams, which a socket has.
//
// Of a frame that is sent, the kernel makes the headers anew, and the frame's own IPv4
// identification and flags, UDP source port and UDP checksum are not among them. The iCRC covers all but the checksum:
// so they are put into the frame first, and the iCRC follows. Of a datagram that is received, the socket tells all that
// the iCRC covers but the identification, which the iCRC itself then tells.
//
// Pure; any thread. What comes from the wire may be anything.
#pragma once

#include <cstdint>
#include <span>

#include "uroce/address.h"

namespace uroce::udp {

/// A stand-in for the MAC of whoever has the address: locally administered, and the same everywhere. No such MAC is
/// ever on a wire.
MacAddress mac_of(const IpAddress& ip);

/// A RoCE packet in a frame that is to be sent.
struct OutFrame {
  uint8_t* l3 = nullptr;  // the IP header; UDP and BTH follow it directly
  bool ipv6 = false;
  IpAddress src;
  IpAddress dst;
  uint16_t src_port = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t* payload = nullptr;  // BTH to iCRC
  uint32_t payload_bytes = 0;

  uint32_t header_bytes() const { return static_cast<uint32_t>(payload - l3); }
};

/// False when the frame is no RoCEv2 packet from one host to another in one untagged piece. `out` points into it.
bool read_frame(std::span<uint8_t> frame, OutFrame& out);

/// Makes identification and source port of the frame what the kernel will send, and the iCRC right for them if it was
/// right before. IPv6 has no identification.
void set_sent_fields(OutFrame& frame, uint16_t identification, uint16_t src_port);

/// A datagram that was received at UDP port 4791.
struct InDatagram {
  const uint8_t* payload = nullptr;
  uint32_t payload_bytes = 0;
  IpAddress src;
  IpAddress dst;  // of the same family
  uint16_t src_port = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
};

enum class Identified : uint8_t {
  kExact,    // IPv6, which has no identification
  kCounted,  // as senders of our kind do it: 0 to kCountedMost
  kForeign,  // another one
  kNone,     // the iCRC fits none: the packet is damaged, or no RoCE packet
};
/// The kernel counts so far in one send, which has at most 128 segments.
inline constexpr uint16_t kCountedMost = 127;

/// Bytes before the payload of a frame.
uint32_t frame_header_bytes(const IpAddress& ip);

/// Writes the frame that the datagram was in, of frame_header_bytes() + payload_bytes bytes, for the station `own`. The
/// identification is the one with which the iCRC holds; where there is none, it is 0, and the iCRC stays wrong.
Identified write_frame(uint8_t* out, const MacAddress& own, const InDatagram& datagram);

}  // namespace uroce::udp
