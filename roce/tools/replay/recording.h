// What a capture holds, sorted into conversations: the requests of one QP to another, and what came back.
//
// A connected pair of QPs in which both sides send requests makes two conversations. roce/tools/lint finds out which
// flows belong together, and tells different QPs that had the same number one after the other (its *lives*) apart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "packet/packet.h"
#include "replay/cm_exchange.h"
#include "uroce/time.h"

namespace uroce::replay {

using Bytes = std::vector<uint8_t>;

/// What the capture contains of the Ethernet header.
struct LinkHeader {
  MacAddress source;
  MacAddress destination;
  uint16_t vlan_id = 0;  // 0: untagged
};

/// One packet as an untagged Ethernet frame, whatever link it was captured from.
struct Recorded {
  uint64_t frame = 0;
  Instant time{};
  std::optional<LinkHeader> link;  // not set: not captured from Ethernet
  Bytes bytes;
  bool parsed = false;  // `view` is set and points into `bytes`
  bool icrc_right = false;
  bool response = false;
  PacketView view;

  Psn psn() const { return view.bth.psn; }
  const OpcodeInfo& info() const { return *view.info; }
  bool usable() const { return parsed && icrc_right && (view.bth.pkey & 0x7FFF) == (kDefaultPkey & 0x7FFF); }
};

struct Conversation {
  Service service = Service::kRc;
  IpAddress requester;
  IpAddress responder;
  uint32_t responder_qpn = 0;
  std::optional<uint32_t> requester_qpn;  // not set: the capture does not tell
  std::vector<Recorded> packets;          // in the capture's order
  uint32_t path_mtu = 0;                  // proved by the packets of either direction of the connection; 0: none
  std::optional<Instant> closed;          // when a DREQ asked for the end of the connection
  bool cut = false;                       // the capture lacks bytes of some packets
  size_t reverse = SIZE_MAX;              // the conversation in the other direction
};

struct Recording {
  std::vector<Conversation> conversations;
  std::vector<CmExchange> exchanges;  // connection management
  uint64_t frames = 0;
  uint64_t roce_packets = 0;
  uint64_t cm_packets = 0;  // MADs to QP 1 that belong to none of the exchanges
  uint64_t cnps = 0;
  uint64_t homeless = 0;  // packets of no conversation: to no known QP, or answers to nothing
  std::string error;      // the capture is damaged; the recording contains what comes before the damage
};

Recording read_recording(std::span<const uint8_t> file);

/// "192.168.0.1 -> 192.168.0.2 qp 0x11 -> 0x12 RC"
std::string describe(const Conversation& conversation);

}  // namespace uroce::replay
