// No bit of a recorded packet is compared with itself: whatever bit is wrong in it, the comparison shows that one
// field.
#include "replay/compare.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "roce_frame.h"

namespace uroce::replay {
namespace {

constexpr uint32_t kEthernetBytes = 14;
constexpr uint32_t kIpv6Bytes = 40;
constexpr uint32_t kIpv4Bytes = 20;
constexpr uint32_t kUdpBytes = 8;

/// A packet with this opcode; each byte of its extension headers has a value of its own.
Bytes frame_with(uint8_t opcode, const Route& path) {
  const OpcodeInfo& info = opcode_info(opcode);
  Bth bth;
  bth.opcode = opcode;
  bth.dest_qp = 0x123456;
  bth.psn = Psn(0x345678);
  Bytes extension;
  for (uint8_t i = 0; i < info.header_bytes; i++) extension.push_back(static_cast<uint8_t>(0x11 + i));
  if (info.has(kHasAeth)) extension[0] = make_syndrome(AethKind::kAck, 5);
  if (info.has(kHasFeth)) extension[0] = extension[1] = extension[2] = extension[3] = 0;
  if (info.has(kHasDeth)) extension[4] = 0;
  return test::frame_of(path, bth, extension, info.has(kHasPayload) ? Bytes{1, 2, 3, 4, 5} : Bytes{});
}

/// The frame as captured. It need not be valid; then the replay does not compare it.
Recorded recorded(Bytes bytes) {
  Recorded packet;
  packet.bytes = std::move(bytes);
  packet.parsed = parse_frame(packet.bytes, packet.view) == ParseResult::kOk;
  packet.icrc_right = true;
  return packet;
}

/// A frame with one bit flipped, and its IPv4 header checksum corrected.
Bytes flipped(Bytes frame, uint32_t bit, bool ipv6) {
  frame[bit / 8] ^= static_cast<uint8_t>(0x80 >> bit % 8);
  const uint32_t checksum = kEthernetBytes + 10;
  if (ipv6 || bit / 8 >= kEthernetBytes + kIpv4Bytes || bit / 16 == checksum / 2) return frame;
  frame[checksum] = frame[checksum + 1] = 0;
  uint32_t sum = 0;
  for (uint32_t at = kEthernetBytes; at < kEthernetBytes + kIpv4Bytes; at += 2) sum += frame[at] << 8 | frame[at + 1];
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  frame[checksum] = static_cast<uint8_t>(~sum >> 8);
  frame[checksum + 1] = static_cast<uint8_t>(~sum);
  return frame;
}

/// The tolerance `ip-fields` ignores these: identification, DF and the reserved bit beside it, ECN.
bool is_free(uint32_t bit, bool ipv6) {
  const uint32_t in_ip = bit - kEthernetBytes * 8;
  if (ipv6) return in_ip == 10 || in_ip == 11;  // the lower two bits of the traffic class
  return in_ip == 14 || in_ip == 15 || (in_ip >= 32 && in_ip < 48) || in_ip == 48 || in_ip == 49;
}

std::string different(const std::vector<FieldPair>& rows) {
  std::string fields;
  for (const FieldPair& row : rows)
    if (!row.same) fields += (fields.empty() ? "" : " ") + row.field;
  return fields;
}

struct Case {
  uint8_t opcode;
  bool ipv6;
  Role role;
};

class CompareTest : public ::testing::TestWithParam<Case> {
 protected:
  /// The fields that differ when our packet is `whole_` and the recorded one has this bit flipped. "free" where that
  /// makes it no packet.
  std::string fields(uint32_t bit, ToleranceUse& used) {
    const Recorded wrong = recorded(flipped(whole_.bytes, bit, GetParam().ipv6));
    if (!wrong.parsed) return "no packet";
    CompareContext context;
    context.role = GetParam().role;
    context.reliable = opcode_info(GetParam().opcode).service == Service::kRc;
    context.first = &whole_;
    return different(compare(context, wrong, whole_.view, used));
  }

  const Recorded whole_ =
      recorded(frame_with(GetParam().opcode, GetParam().ipv6 ? test::ipv6_path() : test::ipv4_path()));
  const uint32_t first_bit_ = kEthernetBytes * 8;
  const uint32_t bth_bit_ = (kEthernetBytes + (GetParam().ipv6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes) * 8;
  const uint32_t icrc_bit_ = static_cast<uint32_t>(whole_.bytes.size() - kIcrcBytes) * 8;
};

TEST_P(CompareTest, EveryBitIsSeenInTheFieldThatItBelongsTo) {
  ASSERT_TRUE(whole_.parsed);
  ToleranceUse used;
  used.withheld = UINT32_MAX;
  std::set<std::string> seen;
  for (uint32_t bit = first_bit_; bit < icrc_bit_; bit++) {
    const std::string found = fields(bit, used);
    const bool of_opcode = bit >= bth_bit_ && bit < bth_bit_ + 8;
    const bool of_pad_count = bit >= bth_bit_ + 10 && bit < bth_bit_ + 12;
    if (is_free(bit, GetParam().ipv6)) {
      EXPECT_EQ(found, "") << "bit " << bit;
    } else if (of_opcode || of_pad_count) {  // the rest of the packet is read differently, too
      EXPECT_NE(found, "") << "bit " << bit;
    } else {
      EXPECT_NE(found, "") << "bit " << bit << " is compared with itself";
      EXPECT_EQ(found.find(' ') == std::string::npos || found == "no packet", true) << "bit " << bit << ": " << found;
      seen.insert(found);
    }
  }
  for (const char* field : {"psn", "dest_qp", "pkey", "solicited", "resv8a", "resv7", "ack_req", "src_ip", "dst_ip"})
    EXPECT_EQ(seen.count(field), 1u) << field;
}

TEST_P(CompareTest, WhatIsToleratedIsWhatTheTableSays) {
  for (uint32_t bit = bth_bit_; bit < icrc_bit_; bit++) {
    ToleranceUse granted, withheld;
    withheld.withheld = UINT32_MAX;
    if (fields(bit, granted) != "") continue;
    const uint32_t in_bth = bit - bth_bit_;
    const bool ack_req = in_bth == 64 && GetParam().role == Role::kRequester;
    const bool credits = in_bth >= 96 + 3 && in_bth < 96 + 8 && opcode_info(GetParam().opcode).has(kHasAeth);
    EXPECT_TRUE(ack_req || credits) << "bit " << bit << " is not compared: " << fields(bit, withheld);
    EXPECT_EQ(granted.count(ack_req ? Tolerance::kAckReq : Tolerance::kCredits), 1u) << "bit " << bit;
  }
}

TEST_P(CompareTest, TheIcrcOfBothIsLookedAt) {
  ToleranceUse used;
  Recorded wrong = recorded(whole_.bytes);
  CompareContext context;
  context.role = GetParam().role;
  EXPECT_EQ(different(compare(context, wrong, whole_.view, used)), "");
  wrong.icrc_right = false;
  EXPECT_EQ(different(compare(context, wrong, whole_.view, used)), "icrc");
  const Recorded spoilt = recorded(flipped(whole_.bytes, icrc_bit_, true));
  EXPECT_EQ(different(compare(context, whole_, spoilt.view, used)), "icrc");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    const bool replayed = info.service == Service::kRc || info.service == Service::kUc || info.service == Service::kUd;
    if (info.operation == Operation::kReserved || info.operation == Operation::kSelectiveAck || !replayed) continue;
    const Role role = info.is_response() ? Role::kResponder : Role::kRequester;
    all.push_back({static_cast<uint8_t>(opcode), opcode % 2 == 1, role});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Opcodes, CompareTest, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(opcode_name(each.param.opcode)); });

}  // namespace
}  // namespace uroce::replay
