// From a received Ethernet frame to a validated packet.
//
// `parse_frame` proves, in this order, that the bytes are an unfragmented IP/UDP datagram for the RoCE port, that the
// opcode is known, and that BTH, extension headers, padding and iCRC fit; only then does a `PacketView` exist. No other
// code does arithmetic on lengths that came from the wire. The iCRC itself is checked by `icrc_matches` (icrc.h), after
// the cheap checks and before any byte of the payload is used.
#pragma once

#include <cstdint>
#include <span>

#include "packet/headers.h"
#include "packet/opcode.h"
#include "packet/signature.h"
#include "uroce/address.h"

namespace uroce {

/// Why a frame was not taken as a RoCEv2 packet. `kNotRoce` frames belong to somebody else (ARP, ND, other traffic).
enum class ParseResult : uint8_t {
  kOk,
  kNotRoce,            // not IP/UDP port 4791
  kTruncated,          // shorter than its headers or its own length fields say
  kBadIpHeader,        // IPv4 checksum, IHL with options, or version
  kFragmented,         // IPv4 fragment or IPv6 fragment header
  kLengthMismatch,     // UDP length and IP length disagree
  kUnknownOpcode,      // reserved opcode
  kBadTver,            // BTH transport version is not 0
  kBadPad,             // pad count larger than what follows the headers
  kUnexpectedPayload,  // payload (or padding) after an opcode that carries none
};

inline constexpr unsigned kParseResultCount = static_cast<unsigned>(ParseResult::kUnexpectedPayload) + 1;

/// A view into a frame that the caller owns; valid as long as the frame is, and the copy of its headers if there is
/// one.
struct PacketView {
  const uint8_t* l2 = nullptr;  // Ethernet header
  const uint8_t* l3 = nullptr;  // IP header
  const uint8_t* bth_bytes = nullptr;
  const uint8_t* ext = nullptr;  // first extension header
  const uint8_t* payload = nullptr;
  uint32_t payload_bytes = 0;  // without padding
  uint32_t l3_bytes = 0;       // IP header to the end of the iCRC
  const OpcodeInfo* info = nullptr;
  Bth bth;
  IpAddress src_ip;
  IpAddress dst_ip;
  uint16_t vlan_id = 0;  // 0: untagged (or priority-tagged)
  uint16_t udp_src_port = 0;
  uint32_t flow_id = 0;       // IPv4 identification or IPv6 flow label
  uint8_t traffic_class = 0;  // IPv4 TOS or IPv6 traffic class: DSCP and ECN
  uint8_t hop_limit = 0;
  bool ipv6 = false;

  /// True when the packet carries the signature of its sender (signature.h).
  bool signed_with(const Signature& signature) const {
    return flow_id == (ipv6 ? signature.flow_label() : signature.identification(bth.psn));
  }

  /// The headers are a copy: payload and iCRC do not follow them.
  bool apart() const { return payload != nullptr && payload != ext + info->header_bytes; }
  bool ecn_marked() const { return (traffic_class & 3) == 3; }

  // Extension headers. Only those that `info` says are there may be asked for.
  Reth reth() const { return Reth::decode(after(kHasXrceth | kHasFeth)); }
  Feth feth() const { return Feth::decode(ext); }
  AtomicEth atomic_eth() const { return AtomicEth::decode(after(kHasXrceth)); }
  Aeth aeth() const { return Aeth::decode(ext); }
  AtomicAckEth atomic_ack_eth() const { return AtomicAckEth::decode(ext + Aeth::kBytes); }
  Xrceth xrceth() const { return Xrceth::decode(ext); }
  Deth deth() const { return Deth::decode(ext); }
  /// Immediate data stands last among the extension headers.
  ImmDt imm() const { return ImmDt::decode(ext + info->header_bytes - ImmDt::kBytes); }
  Ieth ieth() const { return Ieth::decode(ext + info->header_bytes - Ieth::kBytes); }

 private:
  const uint8_t* after(uint16_t header) const { return ext + (info->has(header) ? 4 : 0); }
};

/// True when headers, payload and padding end at a multiple of four bytes, with no more padding than that needs.
inline bool padding_fits(const PacketView& packet) { return packet.bth.pad_count == (-packet.payload_bytes & 3u); }

/// Fills `out` when the result is kOk. Never reads outside `frame`. Trailing bytes after the IP datagram (Ethernet
/// minimum-size padding) are ignored.
///
/// `headers`: RxFrame::headers. With it, a frame may change while it is looked at: no byte of a header is read from
/// `frame`, so that what was proven stays true.
ParseResult parse_frame(std::span<const uint8_t> frame, PacketView& out, const uint8_t* headers = nullptr);

const char* parse_result_name(ParseResult result);

}  // namespace uroce
