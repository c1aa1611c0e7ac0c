#include "mad/mad_fields.h"

#include <iterator>

namespace uroce {

namespace {

constexpr std::string_view kMadNames[] = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                          "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};

using enum MadKind;

constexpr MadField kFields[] = {
    {"id", kReq, 0, 32},          {"service", kReq, 64, 64},
    {"guid", kReq, 128, 64},      {"qkey", kReq, 224, 32},
    {"qpn", kReq, 256, 24},       {"resources", kReq, 280, 8},
    {"depth", kReq, 312, 8},      {"response_timeout", kReq, 344, 5},
    {"transport", kReq, 349, 2},  {"flow_control", kReq, 351, 1},
    {"psn", kReq, 352, 24},       {"own_timeout", kReq, 376, 5},
    {"retry_cnt", kReq, 381, 3},  {"pkey", kReq, 384, 16},
    {"mtu", kReq, 400, 4},        {"rdc", kReq, 404, 1},
    {"rnr_retry", kReq, 405, 3},  {"cm_retries", kReq, 408, 4},
    {"srq", kReq, 412, 1},        {"extended", kReq, 413, 3},
    {"hop_limit", kReq, 744, 8},  {"ack_timeout", kReq, 760, 5},
    {"other_lid", kReq, 768, 16}, {"id", kRep, 0, 32},
    {"peer", kRep, 32, 32},       {"qkey", kRep, 64, 32},
    {"qpn", kRep, 96, 24},        {"eecn", kRep, 128, 24},
    {"psn", kRep, 160, 24},       {"resources", kRep, 192, 8},
    {"depth", kRep, 200, 8},      {"ack_delay", kRep, 208, 5},
    {"failover", kRep, 213, 2},   {"flow_control", kRep, 215, 1},
    {"rnr_retry", kRep, 216, 3},  {"srq", kRep, 219, 1},
    {"guid", kRep, 224, 64},      {"id", kRtu, 0, 32},
    {"peer", kRtu, 32, 32},       {"id", kMra, 0, 32},
    {"peer", kMra, 32, 32},       {"answers", kMra, 64, 2},
    {"wait", kMra, 72, 5},        {"id", kRej, 0, 32},
    {"peer", kRej, 32, 32},       {"answers", kRej, 64, 2},
    {"ari_bytes", kRej, 72, 7},   {"reason", kRej, 80, 16},
    {"id", kDreq, 0, 32},         {"peer", kDreq, 32, 32},
    {"qpn", kDreq, 64, 24},       {"id", kDrep, 0, 32},
    {"peer", kDrep, 32, 32},      {"id", kSidrReq, 0, 32},
    {"pkey", kSidrReq, 32, 16},   {"service", kSidrReq, 64, 64},
    {"peer", kSidrRep, 0, 32},    {"status", kSidrRep, 32, 8},
    {"qpn", kSidrRep, 64, 24},    {"service", kSidrRep, 96, 64},
    {"qkey", kSidrRep, 160, 32},  {"id", kLap, 0, 32},
    {"peer", kLap, 32, 32},       {"qpn", kLap, 96, 24},
    {"id", kApr, 0, 32},          {"peer", kApr, 32, 32},
    {"status", kApr, 72, 8},
};

}  // namespace

std::optional<MadKind> mad_kind_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kMadNames); i++) {
    if (kMadNames[i] == name) return static_cast<MadKind>(i);
  }
  return std::nullopt;
}

std::string_view mad_name(uint16_t attribute) {
  const auto index = static_cast<unsigned>(attribute) - kFirstMadAttribute;
  return index < std::size(kMadNames) ? kMadNames[index] : std::string_view{};
}

const MadField* mad_field(MadKind kind, std::string_view name) {
  for (const MadField& field : kFields) {
    if (field.kind == kind && field.name == name) return &field;
  }
  return nullptr;
}

std::span<const MadField> mad_fields() { return kFields; }

uint64_t get_field(const uint8_t* message, const MadField& field) {
  uint64_t value = 0;
  for (unsigned i = 0; i < field.bits; i++) {
    const unsigned at = field.bit + i;
    value = value << 1 | ((message[at / 8] >> (7 - at % 8)) & 1);
  }
  return value;
}

void set_field(uint8_t* message, const MadField& field, uint64_t value) {
  for (unsigned i = 0; i < field.bits; i++) {
    const unsigned at = field.bit + i;
    const uint8_t bit = static_cast<uint8_t>(1u << (7 - at % 8));
    const bool set = ((value >> (field.bits - 1 - i)) & 1) != 0;
    message[at / 8] = static_cast<uint8_t>(set ? message[at / 8] | bit : message[at / 8] & ~bit);
  }
}

uint32_t private_data_at(MadKind kind) {
  static constexpr uint32_t kOffsets[] = {140, 10, 84, 36, 8, 12, 8, 16, 96, 168, 84};
  return kOffsets[static_cast<unsigned>(kind)];
}

}  // namespace uroce
