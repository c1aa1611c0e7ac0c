#include "lint/mad.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/big_endian.h"
#include "lint/finding.h"

namespace uroce::lint {
namespace {

constexpr uint8_t kBaseVersion = 1;
constexpr uint8_t kClassCm = 0x07;
constexpr uint8_t kCmVersion = 2;
constexpr uint8_t kMethodSend = 0x03;
constexpr uint16_t kClassPortInfo = 0x0001;
constexpr uint16_t kLastAttribute = 0x1c;  // the two attributes that suggest an alternate path follow APR
constexpr uint32_t kLocalGidAt = 56;       // of a REQ, behind the header; the remote one follows
/// Port spaces of librdmacm (RDMA_PS_IPOIB, _TCP, _UDP, _IB): their services stand for an address and a port.
constexpr uint64_t kPortSpaces[] = {0x0002, 0x0106, 0x0111, 0x013f};
constexpr uint16_t kLastRejReason = 35;
constexpr uint8_t kLastAnswered = 2;

/// 0 if this message has no such field.
template <class T = uint32_t>
T value_of(const uint8_t* mad, CmAttribute attribute, std::string_view name) {
  const MadField* field = mad_field(attribute, name);
  return field == nullptr ? T{} : static_cast<T>(get_field(mad + kMadHeaderBytes, *field));
}

/// XRC has the number where RD has its EE context.
uint32_t qpn_of_reply(const uint8_t* mad) {
  const auto qpn = value_of(mad, CmAttribute::kRep, "qpn");
  return qpn != 0 ? qpn : value_of(mad, CmAttribute::kRep, "eecn");
}

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

/// The address header in front of the private data of requests to librdmacm's services (Annex A11).
void check_address_header(const uint8_t* mad, CmAttribute attribute, std::vector<Issue>& issues) {
  const uint64_t space = value_of<uint64_t>(mad, attribute, "service") >> 16;
  if (std::find(std::begin(kPortSpaces), std::end(kPortSpaces), space) == std::end(kPortSpaces)) return;
  const uint8_t* data = mad + kMadHeaderBytes + private_data_at(attribute);
  const uint8_t major = data[0] >> 4;
  const uint8_t ip_version = data[1] >> 4;
  if (major == 0 && (ip_version == 4 || ip_version == 6)) return;
  issues.push_back(
      {Rule::kCmField, sentence("%s with an address header of version %u for IP version %u; expected version 0 and IP "
                                "version 4 or 6",
                                cm_attribute_name(attribute), major, ip_version)});
}

void check_req(const Packet& packet, std::vector<Issue>& issues) {
  const uint8_t* mad = packet.view.payload;
  check_own_qp("REQ", value_of(mad, CmAttribute::kReq, "qpn"), issues);
  const auto path_mtu = value_of(mad, CmAttribute::kReq, "mtu");
  if (path_mtu < 1 || path_mtu > 5) {
    issues.push_back({Rule::kCmField, sentence("REQ with path MTU code %u; expected 1 to 5", path_mtu)});
  }
  check_address_header(mad, CmAttribute::kReq, issues);
  const uint8_t* gids = mad + kMadHeaderBytes + kLocalGidAt;
  const bool same = std::memcmp(gids, packet.view.src_ip.bytes.data(), 16) == 0 &&
                    std::memcmp(gids + 16, packet.view.dst_ip.bytes.data(), 16) == 0;
  if (!same) issues.push_back({Rule::kCmAddress, "REQ whose GIDs are not the addresses of its packet; expected those"});
}

void check_message(const Packet& packet, CmAttribute attribute, std::vector<Issue>& issues) {
  const uint8_t* mad = packet.view.payload;
  const char* name = cm_attribute_name(attribute);
  switch (attribute) {
    case CmAttribute::kReq:
      return check_req(packet, issues);
    case CmAttribute::kRep:
      return check_own_qp(name, qpn_of_reply(mad), issues);
    case CmAttribute::kSidrReq:
      return check_address_header(mad, attribute, issues);
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
  if (attribute < kFirstMadAttribute || attribute > kLastAttribute) {
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
  const auto kind = mad_kind_of(mad_name(attribute));
  if (!kind) return;
  check_message(packet, *kind, issues);
  check_reserved(*kind, mad + kMadHeaderBytes, issues);
}

}  // namespace

const char* cm_attribute_name(CmAttribute attribute) {
  const auto number = static_cast<uint16_t>(kFirstMadAttribute + static_cast<unsigned>(attribute));
  const std::string_view name = mad_name(number);
  return name.empty() ? "CM message" : name.data();  // a literal
}

std::optional<CmMessage> decode_cm(const uint8_t* mad) {
  if (mad[0] != kBaseVersion || mad[1] != kClassCm || mad[2] != kCmVersion || mad[3] != kMethodSend)
    return std::nullopt;
  const auto kind = mad_kind_of(mad_name(load_be16(mad + 16)));
  if (!kind) return std::nullopt;
  CmMessage message;
  message.attribute = *kind;
  message.transaction_id = load_be64(mad + 8);
  message.digest = digest_of(mad);
  message.local_id = value_of(mad, *kind, "id");
  message.remote_id = value_of(mad, *kind, "peer");
  message.starting_psn = Psn(value_of(mad, *kind, "psn"));
  message.responder_resources = value_of<uint8_t>(mad, *kind, "resources");
  message.rnr_retries = value_of<uint8_t>(mad, *kind, "rnr_retry");
  message.service = value_of<uint8_t>(mad, *kind, "transport");
  message.path_mtu = value_of<uint8_t>(mad, *kind, "mtu");
  message.answered = value_of<Answered>(mad, *kind, "answers");
  message.reason = value_of<uint16_t>(mad, *kind, "reason");
  const bool names_qp = *kind == CmAttribute::kReq || *kind == CmAttribute::kDreq;
  message.qpn = *kind == CmAttribute::kRep ? qpn_of_reply(mad) : names_qp ? value_of(mad, *kind, "qpn") : 0;
  return message;
}

void check_mad(const Packet& packet, std::vector<Issue>& issues) {
  const uint8_t* mad = packet.view.payload;
  if (mad[0] != kBaseVersion) {
    issues.push_back({Rule::kMadHeader, sentence("MAD of base version %u; expected 1", mad[0])});
    return;
  }
  if (mad[1] == kClassCm) check_cm(packet, issues);
}

}  // namespace uroce::lint
