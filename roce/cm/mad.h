// Management datagrams of the communication management class as values: the header and each message, to and from the
// 256 bytes of a datagram.
//
// Names are those of the specification. Decoding trusts nothing and judges nothing: every pattern of bits is some
// value, and the user of the value checks it. Encoding writes every byte; what is not named here is zero.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "cm/services.h"
#include "cm/values.h"

namespace uroce::cm {

using MadBytes = std::array<uint8_t, kMadBytes>;
using MadView = std::span<const uint8_t, kMadBytes>;

enum class Attribute : uint16_t {
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

struct MadHeader {
  Attribute attribute{};
  uint64_t transaction_id = 0;
  uint32_t modifier = 0;  // of REQ, REP and SIDR_REP: the attributes of ECE
};

/// Why a datagram is no known message of this class.
enum class HeaderFault : uint8_t { kNone, kNotCm, kUnknownMessage };
HeaderFault decode(MadView mad, MadHeader& header);

/// The message that an MRA or REJ answers, as its field names it.
enum class Answered : uint8_t { kReq = 0, kRep = 1, kOther = 2, kLap = 1 };

/// Reasons of a REJ (no more of them are named than are used here).
enum class RejReason : uint16_t {
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidServiceId = 8,
  kInvalidTransport = 9,
  kStaleConnection = 10,
  kInvalidGid = 12,
  kInvalidMtu = 26,
  kConsumer = 28,
  kDuplicateCommId = 30,
  kVendorOption = 35,
};

enum class SidrStatus : uint8_t { kValid = 0, kUnsupported = 1, kRejected = 2, kNoQp = 3 };

inline constexpr uint8_t kTransportRc = 0;
inline constexpr uint8_t kTransportUc = 1;
inline constexpr uint8_t kTransportExtended = 3;  // then `extended_transport` says which
inline constexpr uint8_t kExtendedXrc = 1;
inline constexpr uint8_t kAprUnsupported = 2;
inline constexpr uint8_t kFailoverUnsupported = 1;

inline constexpr uint16_t kReqPrivateBytes = 92;
inline constexpr uint16_t kRepPrivateBytes = 196;
inline constexpr uint16_t kRtuPrivateBytes = 224;
inline constexpr uint16_t kRejPrivateBytes = 148;
inline constexpr uint16_t kAriBytes = 72;
inline constexpr uint16_t kDreqPrivateBytes = 220;
inline constexpr uint16_t kDrepPrivateBytes = 224;
inline constexpr uint16_t kSidrReqPrivateBytes = 216;
inline constexpr uint16_t kSidrRepPrivateBytes = 136;

struct ReqPath {
  uint16_t local_lid = 0xffff;  // RoCE has none, and the kernel sends this
  uint16_t remote_lid = 0xffff;
  IpAddress local_gid{};
  IpAddress remote_gid{};
  uint32_t flow_label = 0;
  uint8_t packet_rate = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t sl = 0;
  bool subnet_local = false;
  uint8_t local_ack_timeout = 0;
};

struct Req {
  uint32_t local_id = 0;
  Ece ece{};
  uint64_t service_id = 0;
  uint64_t ca_guid = 0;
  uint32_t qkey = 0;
  uint32_t qpn = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t remote_response_timeout = 0;
  uint8_t transport = kTransportRc;
  bool flow_control = false;
  Psn starting_psn{};  // of the packets that the message's receiver sends
  uint8_t local_response_timeout = 0;
  uint8_t retry_count = 0;
  uint16_t pkey = 0xffff;
  uint8_t path_mtu = 0;  // 1..5: 256..4096
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;
  uint8_t max_cm_retries = 0;
  bool srq = false;
  uint8_t extended_transport = 0;
  ReqPath path{};
  bool has_alternate_path = false;  // decoded only: a LID or GID of one is not zero
  PrivateData private_data{};
};

struct Rep {
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  Ece ece{};
  uint32_t qkey = 0;
  uint32_t qpn = 0;
  uint32_t eecn = 0;  // XRC: the target queue pair, in place of `qpn`
  Psn starting_psn{};
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;
  uint8_t failover_accepted = 0;
  bool flow_control = false;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint64_t ca_guid = 0;
  PrivateData private_data{};
};

/// RTU and DREP: both IDs and private data.
struct Confirmation {
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  PrivateData private_data{};
};

struct Mra {
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  Answered answered{};
  uint8_t service_timeout = 0;
};

struct Rej {
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  Answered answered{};
  uint16_t reason = 0;
  std::array<uint8_t, kAriBytes> ari{};
  uint8_t ari_length = 0;
  PrivateData private_data{};
};

struct Dreq {
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint32_t remote_qpn = 0;
  PrivateData private_data{};
};

struct SidrReq {
  uint32_t request_id = 0;
  uint16_t pkey = 0xffff;
  uint64_t service_id = 0;
  PrivateData private_data{};
};

struct SidrRep {
  uint32_t request_id = 0;
  uint8_t status = 0;
  Ece ece{};
  uint32_t qpn = 0;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  PrivateData private_data{};
};

/// The fields of LAP that its answer needs.
struct Lap {
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint32_t remote_qpn = 0;
};

struct Apr {
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint8_t status = 0;
};

Req decode_req(MadView mad);
Rep decode_rep(MadView mad);
Confirmation decode_confirmation(MadView mad);
Mra decode_mra(MadView mad);
Rej decode_rej(MadView mad);
Dreq decode_dreq(MadView mad);
SidrReq decode_sidr_req(MadView mad);
SidrRep decode_sidr_rep(MadView mad);
Lap decode_lap(MadView mad);
Apr decode_apr(MadView mad);

/// Private data beyond the message's field is not sent: the caller has checked its length.
MadBytes encode(uint64_t transaction_id, const Req& req);
MadBytes encode(uint64_t transaction_id, const Rep& rep);
MadBytes encode_rtu(uint64_t transaction_id, const Confirmation& rtu);
MadBytes encode_drep(uint64_t transaction_id, const Confirmation& drep);
MadBytes encode(uint64_t transaction_id, const Mra& mra);
MadBytes encode(uint64_t transaction_id, const Rej& rej);
MadBytes encode(uint64_t transaction_id, const Dreq& dreq);
MadBytes encode(uint64_t transaction_id, const SidrReq& request);
MadBytes encode(uint64_t transaction_id, const SidrRep& reply);
MadBytes encode(uint64_t transaction_id, const Apr& apr);

}  // namespace uroce::cm
