#include "lint/mad.h"

#include <algorithm>

#include "base/big_endian.h"
#include "cm/cma_header.h"
#include "lint/finding.h"

namespace uroce::lint {
namespace {

constexpr uint8_t kClassCm = 0x07;
constexpr uint8_t kCmVersion = 2;
constexpr uint8_t kMethodSend = 0x03;
constexpr uint16_t kClassPortInfo = 0x0001;
constexpr uint16_t kLastAttribute = 0x1c;  // the two attributes that suggest an alternate path follow APR
constexpr uint32_t kMadHeaderBytes = 24;
constexpr uint16_t kLastRejReason = 35;
constexpr uint8_t kLastAnswered = 2;

cm::MadView view_of(const uint8_t* mad) { return cm::MadView(mad, kMadBytes); }

uint64_t digest_of(const uint8_t* mad) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (uint32_t i = 0; i < kMadBytes; i++) digest = (digest ^ mad[i]) * 0x100000001b3u;
  return digest;
}

/// Bits that a message does not define, by their place behind the MAD header.
struct Reserved {
  CmAttribute attribute;
  uint8_t offset;
  uint8_t mask;
};
constexpr Reserved kReserved[] = {
    {CmAttribute::kReq, 4, 0xff},     {CmAttribute::kReq, 24, 0xff},    {CmAttribute::kReq, 25, 0xff},
    {CmAttribute::kReq, 26, 0xff},    {CmAttribute::kReq, 27, 0xff},    {CmAttribute::kReq, 90, 0x0f},
    {CmAttribute::kReq, 91, 0xc0},    {CmAttribute::kReq, 94, 0x07},    {CmAttribute::kReq, 95, 0x07},
    {CmAttribute::kRep, 27, 0x0f},    {CmAttribute::kMra, 8, 0x3f},     {CmAttribute::kMra, 9, 0x07},
    {CmAttribute::kRej, 8, 0x3f},     {CmAttribute::kRej, 9, 0x01},     {CmAttribute::kDreq, 11, 0xff},
    {CmAttribute::kSidrReq, 6, 0xff}, {CmAttribute::kSidrReq, 7, 0xff},
};

void check_reserved(CmAttribute attribute, const uint8_t* data, std::vector<Issue>& issues) {
  for (const Reserved& reserved : kReserved) {
    if (reserved.attribute != attribute || (data[reserved.offset] & reserved.mask) == 0) continue;
    issues.push_back(
        {Rule::kCmReserved, sentence("%s with 0x%02x in byte %u, where reserved bits are; expected zero",
                                     cm_attribute_name(attribute), data[reserved.offset], reserved.offset)});
    return;
  }
}

void check_own_qp(const char* name, uint32_t qpn, std::vector<Issue>& issues) {
  if (qpn > 1 && qpn != 0xFFFFFF) return;
  issues.push_back({Rule::kCmField, sentence("%s with QPN 0x%06x; expected a QP of its own", name, qpn)});
}

/// The address header that librdmacm's services have in front of a request's private data (Annex A11).
void check_address_header(const char* name, uint64_t service_id, const cm::PrivateData& data,
                          std::vector<Issue>& issues) {
  if (!cm::is_port_service(service_id)) return;
  const uint8_t major = data.bytes[0] >> 4;
  const uint8_t ip_version = data.bytes[1] >> 4;
  if (major == 0 && (ip_version == 4 || ip_version == 6)) return;
  issues.push_back(
      {Rule::kCmField, sentence("%s with an address header of version %u for IP version %u; expected version 0 and IP "
                                "version 4 or 6",
                                name, major, ip_version)});
}

void check_req(const Packet& packet, std::vector<Issue>& issues) {
  const cm::Req req = cm::decode_req(view_of(packet.view.payload));
  check_own_qp("REQ", req.qpn, issues);
  if (req.path_mtu < 1 || req.path_mtu > 5) {
    issues.push_back({Rule::kCmField, sentence("REQ with path MTU code %u; expected 1 to 5", req.path_mtu)});
  }
  check_address_header("REQ", req.service_id, req.private_data, issues);
  if (req.path.local_gid == packet.view.src_ip && req.path.remote_gid == packet.view.dst_ip) return;
  issues.push_back({Rule::kCmAddress, "REQ whose GIDs are not the addresses of its packet; expected those"});
}

void check_message(const Packet& packet, CmAttribute attribute, std::vector<Issue>& issues) {
  const uint8_t* mad = packet.view.payload;
  const char* name = cm_attribute_name(attribute);
  switch (attribute) {
    case CmAttribute::kReq:
      return check_req(packet, issues);
    case CmAttribute::kRep: {
      const cm::Rep rep = cm::decode_rep(view_of(mad));
      return check_own_qp(name, rep.qpn != 0 ? rep.qpn : rep.eecn, issues);  // XRC: where RD has its EE context
    }
    case CmAttribute::kSidrReq: {
      const cm::SidrReq request = cm::decode_sidr_req(view_of(mad));
      return check_address_header(name, request.service_id, request.private_data, issues);
    }
    case CmAttribute::kMra:
    case CmAttribute::kRej: {
      const uint8_t answered = mad[kMadHeaderBytes + 8] >> 6;
      if (answered > kLastAnswered) {
        issues.push_back({Rule::kCmField, sentence("%s for message %u; expected 0, 1 or 2", name, answered)});
      }
      break;
    }
    default:
      break;
  }
  if (attribute != CmAttribute::kRej) return;
  const uint16_t reason = load_be16(mad + kMadHeaderBytes + 10);
  if (reason == 0 || reason > kLastRejReason) {
    issues.push_back({Rule::kCmField, sentence("REJ with reason %u; expected 1 to %u", reason, kLastRejReason)});
  }
}

void check_cm(const Packet& packet, std::vector<Issue>& issues) {
  const uint8_t* mad = packet.view.payload;
  const uint16_t attribute = load_be16(mad + 16);
  if (mad[2] != kCmVersion) {
    issues.push_back({Rule::kMadHeader, sentence("CM message of class version %u; expected 2", mad[2])});
    return;
  }
  if (attribute == kClassPortInfo) return;
  if (attribute < static_cast<uint16_t>(CmAttribute::kReq) || attribute > kLastAttribute) {
    issues.push_back({Rule::kCmAttribute, sentence("CM attribute 0x%04x; expected 0x10 to 0x1c", attribute)});
    return;
  }
  if (mad[3] != kMethodSend) {
    issues.push_back({Rule::kMadHeader, sentence("CM message with method 0x%02x; expected Send, 0x03", mad[3])});
  }
  const uint16_t status = load_be16(mad + 4);
  if (status != 0) {
    issues.push_back({Rule::kMadHeader, sentence("CM message with status 0x%04x; expected 0", status)});
  }
  const uint16_t reserved = load_be16(mad + 18);
  if (reserved != 0) {
    issues.push_back({Rule::kMadHeader, sentence("MAD with 0x%04x in its reserved bytes; expected 0", reserved)});
  }
  const uint32_t source = packet.view.deth().src_qp;
  if (source != kGsiQpn) {
    issues.push_back({Rule::kGsiQp, sentence("CM message from QP 0x%06x; expected QP 1", source)});
  }
  if (attribute > static_cast<uint16_t>(CmAttribute::kApr)) return;
  check_message(packet, static_cast<CmAttribute>(attribute), issues);
  check_reserved(static_cast<CmAttribute>(attribute), mad + kMadHeaderBytes, issues);
}

void take_ids(CmMessage& message, uint32_t local_id, uint32_t remote_id) {
  message.local_id = local_id;
  message.remote_id = remote_id;
}

}  // namespace

const char* cm_attribute_name(CmAttribute attribute) {
  static constexpr const char* kNames[] = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                           "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
  const auto index = static_cast<unsigned>(attribute) - static_cast<unsigned>(CmAttribute::kReq);
  return index < sizeof kNames / sizeof kNames[0] ? kNames[index] : "CM message";
}

std::optional<CmMessage> decode_cm(const uint8_t* mad) {
  const cm::MadView view = view_of(mad);
  cm::MadHeader header;
  if (cm::decode(view, header) != cm::HeaderFault::kNone) return std::nullopt;
  CmMessage message;
  message.attribute = header.attribute;
  message.transaction_id = header.transaction_id;
  message.digest = digest_of(mad);
  take_ids(message, load_be32(mad + kMadHeaderBytes), load_be32(mad + kMadHeaderBytes + 4));
  switch (header.attribute) {
    case CmAttribute::kReq: {
      const cm::Req req = cm::decode_req(view);
      message.remote_id = 0;
      message.qpn = req.qpn;
      message.responder_resources = req.responder_resources;
      message.rnr_retries = req.rnr_retry_count;
      message.service = req.transport;
      message.starting_psn = req.starting_psn;
      message.path_mtu = req.path_mtu;
      break;
    }
    case CmAttribute::kRep: {
      const cm::Rep rep = cm::decode_rep(view);
      message.qpn = rep.qpn != 0 ? rep.qpn : rep.eecn;  // XRC: where RD has its EE context
      message.starting_psn = rep.starting_psn;
      message.responder_resources = rep.responder_resources;
      message.rnr_retries = rep.rnr_retry_count;
      break;
    }
    case CmAttribute::kDreq:
      message.qpn = cm::decode_dreq(view).remote_qpn;
      break;
    case CmAttribute::kMra:
      message.answered = cm::decode_mra(view).answered;
      break;
    case CmAttribute::kRej:
      message.answered = cm::decode_rej(view).answered;
      message.reason = cm::decode_rej(view).reason;
      break;
    case CmAttribute::kSidrReq:
      take_ids(message, cm::decode_sidr_req(view).request_id, 0);
      break;
    case CmAttribute::kSidrRep:
      take_ids(message, 0, cm::decode_sidr_rep(view).request_id);
      break;
    default:
      break;
  }
  return message;
}

void check_mad(const Packet& packet, std::vector<Issue>& issues) {
  const uint8_t* mad = packet.view.payload;
  if (mad[0] != 1) {
    issues.push_back({Rule::kMadHeader, sentence("MAD of base version %u; expected 1", mad[0])});
    return;
  }
  if (mad[1] == kClassCm) check_cm(packet, issues);
}

}  // namespace uroce::lint
