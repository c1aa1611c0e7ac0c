#include "lint/mad.h"

#include "base/big_endian.h"
#include "lint/finding.h"

namespace uroce::lint {
namespace {

constexpr uint8_t kClassCm = 0x07;
constexpr uint8_t kCmVersion = 2;
constexpr uint8_t kMethodSend = 0x03;
constexpr uint16_t kClassPortInfo = 0x0001;
constexpr uint16_t kLastAttribute = 0x1c;  // the two attributes that suggest an alternate path follow APR
constexpr uint32_t kMadHeaderBytes = 24;

void check_cm(const uint8_t* mad, std::vector<Issue>& issues) {
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
  const auto message = decode_cm(mad);
  if (!message) return;
  const bool connects = message->attribute == CmAttribute::kReq || message->attribute == CmAttribute::kRep;
  if (!connects) return;
  const char* name = cm_attribute_name(message->attribute);
  if (message->qpn <= 1 || message->qpn == 0xFFFFFF) {
    issues.push_back({Rule::kCmField, sentence("%s with QPN 0x%06x; expected a QP of its own", name, message->qpn)});
  }
  if (message->attribute == CmAttribute::kReq && (message->path_mtu < 1 || message->path_mtu > 5)) {
    issues.push_back({Rule::kCmField, sentence("REQ with path MTU code %u; expected 1 to 5", message->path_mtu)});
  }
}

}  // namespace

const char* cm_attribute_name(CmAttribute attribute) {
  static constexpr const char* kNames[] = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                           "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
  const auto index = static_cast<unsigned>(attribute) - static_cast<unsigned>(CmAttribute::kReq);
  return index < sizeof kNames / sizeof kNames[0] ? kNames[index] : "CM message";
}

std::optional<CmMessage> decode_cm(const uint8_t* mad) {
  const uint16_t attribute = load_be16(mad + 16);
  if (mad[1] != kClassCm || mad[2] != kCmVersion) return std::nullopt;
  if (attribute < static_cast<uint16_t>(CmAttribute::kReq) || attribute > static_cast<uint16_t>(CmAttribute::kDrep)) {
    return std::nullopt;
  }
  const uint8_t* data = mad + kMadHeaderBytes;
  CmMessage message;
  message.attribute = static_cast<CmAttribute>(attribute);
  message.transaction_id = load_be64(mad + 8);
  message.local_id = load_be32(data);
  message.remote_id = load_be32(data + 4);
  if (message.attribute == CmAttribute::kReq) {
    message.remote_id = 0;  // reserved in this message
    message.qpn = load_be24(data + 32);
    message.responder_resources = data[35];
    message.service = (data[43] >> 1) & 3;
    message.starting_psn = Psn(load_be24(data + 44));
    message.path_mtu = data[50] >> 4;
  } else if (message.attribute == CmAttribute::kRep) {
    message.qpn = load_be24(data + 12);
    message.starting_psn = Psn(load_be24(data + 20));
    message.responder_resources = data[24];
  } else if (message.attribute == CmAttribute::kDreq) {
    message.qpn = load_be24(data + 8);
  }
  return message;
}

void check_mad(const uint8_t* mad, std::vector<Issue>& issues) {
  if (mad[0] != 1) {
    issues.push_back({Rule::kMadHeader, sentence("MAD of base version %u; expected 1", mad[0])});
    return;
  }
  if (mad[1] == kClassCm) check_cm(mad, issues);
}

}  // namespace uroce::lint
