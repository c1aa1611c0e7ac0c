// Management datagrams to QP 1: the header, and the connection management messages that name QPs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lint/packet.h"

namespace uroce::lint {

inline constexpr uint32_t kGsiQpn = 1;
inline constexpr uint32_t kGsiQkey = 0x80010000;
inline constexpr uint32_t kMadBytes = 256;

enum class CmAttribute : uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1a,
};

/// Transport service types of a REQ.
inline constexpr uint8_t kCmServiceRc = 0;
inline constexpr uint8_t kCmServiceUc = 1;

struct CmMessage {
  CmAttribute attribute{};
  uint64_t transaction_id = 0;
  uint32_t local_id = 0;   // of the sender
  uint32_t remote_id = 0;  // all but REQ
  // In REQ and REP those of the sender, in DREQ of the receiver.
  uint32_t qpn = 0;
  Psn starting_psn{};
  uint8_t responder_resources = 0;
  // REQ.
  uint8_t service = 0;
  uint8_t path_mtu = 0;
};

const char* cm_attribute_name(CmAttribute attribute);

/// `mad` points at 256 bytes. Returns nothing when it is no CM message, or one without communication ids.
std::optional<CmMessage> decode_cm(const uint8_t* mad);
void check_mad(const uint8_t* mad, std::vector<Issue>& issues);

}  // namespace uroce::lint
