// No bit of a sent frame goes unread in a script: whatever bit is wrong, the comparison with the line that expects the
// frame has a row that differs, in the field that the bit belongs to.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "base/big_endian.h"
#include "packet/internet_checksum.h"
#include "packet/opcode.h"
#include "roce_frame.h"
#include "script/config.h"
#include "script/packets.h"
#include "script/testbench.h"
#include "script/text.h"

namespace uroce::script {
namespace {

constexpr uint32_t kEthernetBytes = 14;
constexpr uint32_t kIpv4Bytes = 20;
constexpr uint32_t kUdpBytes = 8;
constexpr uint32_t kBthBit = (kEthernetBytes + kIpv4Bytes + kUdpBytes) * 8;

/// The opcode's word in scripts.
std::string word_of(uint8_t opcode) {
  const OpcodeInfo& info = opcode_info(opcode);
  if (info.operation == Operation::kAcknowledge) return "ACK";
  std::string name = opcode_name(opcode);
  name = name.substr(name.find('_') + 1);
  return name == "ATOMIC_ACKNOWLEDGE" ? "ATOMIC_ACK" : name;
}

Bytes extension_of(const OpcodeInfo& info) {
  test::Bytes bytes;
  if (info.has(kHasDeth)) test::append(bytes, Deth{0x11223344, 0x556677});
  if (info.has(kHasFeth)) test::append(bytes, Feth::from(0x11));
  if (info.has(kHasReth)) test::append(bytes, Reth{0x1122334455667788, 0x99AABBCC, 0x123});
  if (info.has(kHasAtomicEth)) test::append(bytes, AtomicEth{0x1122334455667788, 0x99AABBCC, 0x12345678, 0x9ABCDEF});
  if (info.has(kHasAeth)) test::append(bytes, Aeth{make_syndrome(AethKind::kAck, 5), 0x654321});
  if (info.has(kHasAtomicAckEth)) test::append(bytes, AtomicAckEth{0x0123456789abcdef});
  if (info.has(kHasImm) || info.has(kHasIeth)) bytes.insert(bytes.end(), {0x21, 0x43, 0x65, 0x87});
  return bytes;
}

std::string fields_of(const OpcodeInfo& info) {
  std::string text;
  if (info.has(kHasDeth)) text += " qkey 0x11223344 src_qp 0x556677";
  if (info.has(kHasFeth)) text += " feth 0x11";
  if (info.has(kHasReth)) text += " at 0x1122334455667788 rkey 0x99aabbcc len 0x123";
  if (info.has(kHasAtomicEth)) text += " at 0x1122334455667788 rkey 0x99aabbcc compare 0x9abcdef";
  if (info.operation == Operation::kFetchAdd) text += " add 0x12345678";
  if (info.operation == Operation::kCompareSwap) text += " swap 0x12345678";
  if (info.has(kHasAeth)) text += " msn 0x654321 syndrome 5";
  if (info.has(kHasAtomicAckEth)) text += " original 0x0123456789abcdef";
  if (info.has(kHasImm)) text += " imm 0x21436587";
  if (info.has(kHasIeth)) text += " inv 0x21436587";
  if (info.has(kHasPayload)) text += " payload 5 pattern 7";
  return text;
}

/// A frame with one bit flipped, and its IPv4 checksum and iCRC corrected.
Bytes turned(Bytes frame, uint32_t bit) {
  frame[bit / 8] ^= static_cast<uint8_t>(0x80 >> bit % 8);
  uint8_t* const ip = frame.data() + kEthernetBytes;
  if (bit / 16 != (kEthernetBytes + 10) / 2) {
    store_be16(ip + 10, 0);
    store_be16(ip + 10, static_cast<uint16_t>(~fold16(sum16({ip, kIpv4Bytes}))));
  }
  const size_t end = frame.size() - kIcrcBytes;
  const uint32_t state = icrc_begin(ip, false);
  icrc_store(frame.data() + end,
             crc32_update(state, ip + kIpv4Bytes + kUdpBytes + Bth::kBytes, end - kBthBit / 8 - Bth::kBytes));
  return frame;
}

class Comparison : public ::testing::TestWithParam<int> {
 protected:
  Comparison() {
    const Service service = info_.service;
    const char* const type = service == Service::kUc ? "uc" : service == Service::kUd ? "ud" : "rc";
    const std::string line = "> " + word_of(opcode_) + " psn 5 src_port 0xc123" + fields_of(info_);
    const Script script = parse("x.rdrill", std::string("qp 1 ") + type + "\n" + line + "\n");
    bench_.emplace(config_of(script));
    EXPECT_EQ(bench_->add_qp(script.statements.at(0)), "");
    expected_ = script.statements.at(1);
  }

  Bytes right() {
    ScriptQp& qp = bench_->qp(1);
    Route path = qp.from_peer;
    std::swap(path.src_ip, path.dst_ip);
    std::swap(path.src_mac, path.dst_mac);
    path.udp_src_port = 0xC123;
    Bth bth;
    bth.opcode = opcode_;
    bth.dest_qp = qp.peer_qpn;
    bth.psn = psn_base(qp, true, info_) + 5;
    return test::frame_of(path, bth, extension_of(info_), info_.has(kHasPayload) ? pattern_bytes(7, 0, 5) : Bytes{});
  }

  /// The fields that differ; "" when none does.
  std::string fields(const Bytes& frame) {
    std::string different;
    for (const FieldCheck& row : compare(*bench_, bench_->qp(1), expected_, 0, frame))
      if (!row.same) different += (different.empty() ? "" : " ") + row.field;
    return different;
  }

  const uint8_t opcode_ = static_cast<uint8_t>(GetParam());
  const OpcodeInfo& info_ = opcode_info(opcode_);
  std::optional<Testbench> bench_;
  Statement expected_;
};

TEST_P(Comparison, SeesEveryBit) {
  const Bytes whole = right();
  ASSERT_EQ(fields(whole), "");
  std::set<std::string> seen;
  for (uint32_t bit = 0; bit < (whole.size() - kIcrcBytes) * 8; bit++) {
    const std::string found = fields(turned(whole, bit));
    EXPECT_NE(found, "") << "bit " << bit << " is not compared";
    seen.insert(found);
  }
  // For each of these there is a bit that changes only this field.
  for (const char* field :
       {"to",  "from",         "ip_flags",  "ttl",  "dscp", "ecn",   "src_ip",  "dst_ip",  "src_port", "psn",
        "mig", "udp_checksum", "solicited", "fecn", "becn", "resv6", "dest_qp", "ack_req", "resv7",    "pkey"})
    EXPECT_EQ(seen.count(field), 1u) << field;
}

TEST_P(Comparison, SeesTheIcrc) {
  Bytes frame = right();
  for (uint32_t i = 0; i < 32; i++) {
    frame[frame.size() - 1 - i / 8] ^= static_cast<uint8_t>(1 << i % 8);
    EXPECT_EQ(fields(frame), "icrc");
    frame[frame.size() - 1 - i / 8] ^= static_cast<uint8_t>(1 << i % 8);
  }
}

std::vector<int> opcodes() {
  std::vector<int> all;
  for (int opcode = 0; opcode < 256; opcode++) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    const bool spoken = info.service == Service::kRc || info.service == Service::kUc || info.service == Service::kUd;
    if (info.operation != Operation::kReserved && info.operation != Operation::kSelectiveAck && spoken)
      all.push_back(opcode);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Opcodes, Comparison, ::testing::ValuesIn(opcodes()),
                         [](const auto& each) { return std::string(opcode_name(static_cast<uint8_t>(each.param))); });

}  // namespace
}  // namespace uroce::script
