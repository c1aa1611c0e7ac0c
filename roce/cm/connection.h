// One connection, or one exchange of SIDR, as the protocol knows it: both ends, the terms agreed on, and what is
// awaited.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cm/connection_order.h"
#include "cm/mad.h"
#include "cm/values.h"
#include "uroce/address.h"
#include "uroce/psn.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"

namespace uroce::cm {

/// Times on the wire are codes: 4.096 us * 2^code.
constexpr Duration code_time(uint8_t code) { return {int64_t{4096} << std::min<uint8_t>(code, 31)}; }

inline constexpr uint8_t kResponseTimeoutCode = 20;
inline constexpr uint8_t kMaxCmRetries = 15;
inline constexpr uint8_t kPacketLifetimeCode = 16;
inline constexpr uint8_t kMraTimeoutCode = 24;
inline constexpr uint8_t kTargetAckDelayCode = 15;
/// Times that a peer announces are clamped to this range, so that it can neither make us send a storm nor keep its
/// state for hours.
inline constexpr uint8_t kMinResponseCode = 16;
inline constexpr uint8_t kMaxResponseCode = 22;
inline constexpr uint8_t kMaxMraCode = 26;
inline constexpr uint8_t kMinTimewaitCode = 14;
inline constexpr uint8_t kMaxTimewaitCode = 22;

/// A peer without a listener for the service is asked again after these times before the program is told. A server that
/// closes one listener and opens the next (as perftest -R does between two connections of one client) is without one
/// for that long, and perftest does not survive a refusal.
inline constexpr std::array kAskAgainAfter{milliseconds(10), milliseconds(50), milliseconds(200), milliseconds(500)};

/// A program that ends has no time for the usual timeouts. Its peers are told at intervals of kFarewellSpacing.
inline constexpr Duration kFarewellRetry = milliseconds(50);
inline constexpr Duration kFarewellSpacing = microseconds(20);

enum class CmState : uint8_t {
  kIdle,
  kReqSent,
  kMraReqReceived,
  kReqReceived,
  kMraReqSent,
  kRepSent,
  kMraRepReceived,
  kRepReceived,
  kMraRepSent,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kRefused,    // ended by a refusal; rests, so that a late repetition is not taken for a new request
  kWithdrawn,  // refused after a REP, which the peer may have taken already: so a DREQ is sent, too
  kSidrReqSent,
  kSidrReqReceived,
  kSidrAnswered,  // rests, too
};

/// The other end of the connection.
struct Peer {
  AddressVector av{};
  IpAddress ip{};
  IpAddress own_ip{};  // at this end
  uint32_t id = 0;     // its communication ID; 0: not known yet
  uint32_t qpn = 0;
  uint64_t guid = 0;
};

/// What both sides agreed on, from this side's view.
struct Terms {
  QpType qp_type = QpType::kRc;
  uint32_t qpn = 0;  // ours
  Psn own_psn;       // of incoming packets
  Psn peer_psn;      // of outgoing packets
  uint32_t path_mtu_bytes = 1024;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  uint8_t peer_rnr_retry_count = 0;  // what the peer was told; at the passive side, until it answers, the same as ours
  uint8_t ack_timeout = kPacketLifetimeCode + 1;
  bool other_path_offered = false;  // alternate paths are not used
};

/// The message that awaits an answer, or that answers repetitions.
struct Outgoing {
  MadBytes mad{};
  bool is_answer = false;  // in resting states: repetitions are answered with it
  uint8_t max_retries = kMaxCmRetries;
  uint8_t retries_left = 0;
  Duration timeout = {2 * code_time(kPacketLifetimeCode).ns + code_time(kResponseTimeoutCode).ns};
};

struct Connection {
  uint32_t id = 0;  // ours
  uint64_t transaction_id = 0;
  uint64_t service_id = 0;
  CmState state = CmState::kIdle;
  bool passive = false;
  uint8_t found_nobody = 0;  // how often the peer had no listener for the service
  Id* owner = nullptr;       // nullptr: no Id is told any more
  uint64_t listener = 0;     // serial number of the listener, while the request is pending
  Peer peer;
  Terms terms;
  Outgoing out;

  // Of the table.
  Instant deadline = Instant::never();
  ConnectionOrder<Instant>::Place timer;
  ConnectionOrder<uint64_t>::Place rest;
  ConnectionOrder<uint32_t>::Place awaiting;
  bool known_by_request = false;
  bool known_by_qp = false;
};

/// Before there is a connection, on the passive side.
constexpr bool is_pending(CmState state) {
  return state == CmState::kReqReceived || state == CmState::kMraReqSent || state == CmState::kRepSent ||
         state == CmState::kMraRepReceived || state == CmState::kSidrReqReceived;
}
/// The peer was told that the connection ends, and has not answered.
constexpr bool is_leaving(CmState state) { return state == CmState::kDreqSent || state == CmState::kWithdrawn; }
constexpr bool is_resting(CmState state) {
  return state == CmState::kTimewait || state == CmState::kRefused || state == CmState::kWithdrawn ||
         state == CmState::kSidrAnswered;
}

}  // namespace uroce::cm
