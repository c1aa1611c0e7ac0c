// Management datagrams to QP 1: the rules for all of them, and the messages of connection management as the tracker
// needs them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lint/packet.h"
#include "mad/mad_fields.h"

namespace uroce::lint {

inline constexpr uint32_t kGsiQpn = 1;
inline constexpr uint32_t kGsiQkey = 0x80010000;
inline constexpr uint32_t kMadBytes = 256;

using CmAttribute = MadKind;

/// The message that an MRA or REJ answers, as its field names it.
enum class Answered : uint8_t { kReq = 0, kRep = 1, kOther = 2 };
/// Reason of a REJ: its sender waited in vain.
inline constexpr uint16_t kReasonTimeout = 4;

/// Transport service types of a REQ.
inline constexpr uint8_t kCmServiceRc = 0;
inline constexpr uint8_t kCmServiceUc = 1;
inline constexpr uint8_t kCmServiceExtended = 3;  // XRC

struct CmMessage {
  CmAttribute attribute{};
  uint64_t transaction_id = 0;
  uint32_t local_id = 0;   // of the sender; of SIDR_REQ the request's, of SIDR_REP 0
  uint32_t remote_id = 0;  // all but REQ and SIDR_REQ; of SIDR_REP the request's
  uint64_t digest = 0;     // of all bytes: a repetition has the same
  // In REQ and REP those of the sender, in DREQ of the receiver.
  uint32_t qpn = 0;
  Psn starting_psn{};
  uint8_t responder_resources = 0;
  uint8_t rnr_retries = 0;  // REQ, REP: of the receiver
  // REQ.
  uint8_t service = 0;
  uint8_t path_mtu = 0;
  // MRA, REJ.
  Answered answered{};
  uint16_t reason = 0;
};

const char* cm_attribute_name(CmAttribute attribute);

/// `mad` points at 256 bytes. Returns nothing when it is no CM message.
std::optional<CmMessage> decode_cm(const uint8_t* mad);
/// Checks the MAD of `packet`, which has 256 bytes.
void check_mad(const Packet& packet, std::vector<Issue>& issues);

}  // namespace uroce::lint
