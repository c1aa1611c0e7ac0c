// No field goes unread: in recordings of real traffic one bit of one packet is turned round, with lengths, checksum and
// iCRC put right, and the rule that the field is for finds it. Which fields nobody can judge is a list, and held to it.
// Then the same for what is sent again, which is as it was in every bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "edited_capture.h"
#include "packet/opcode.h"
#include "roce_frame.h"
#include "uroce/work_request.h"

namespace uroce {
namespace {

using test::EditedCapture;
using test::EditedFrame;

struct BitField {
  std::string name;
  uint32_t bits;
};

/// In the order on the wire, from the IP header to the payload.
std::vector<BitField> fields_of(const OpcodeInfo& info, bool v4) {
  std::vector<BitField> fields;
  const auto add = [&](std::initializer_list<BitField> more) { fields.insert(fields.end(), more); };
  if (v4) {
    add({{"version", 4}, {"ihl", 4}, {"dscp", 6}, {"ecn", 2}, {"ip length", 16}, {"identification", 16}});
    add({{"flags", 2}, {"more", 1}, {"offset", 13}, {"ttl", 8}, {"protocol", 8}, {"ip checksum", 16}});
    add({{"src ip", 32}, {"dst ip", 32}});
  } else {
    add({{"version", 4}, {"dscp", 6}, {"ecn", 2}, {"flow label", 20}, {"ip length", 16}, {"protocol", 8}, {"ttl", 8}});
    add({{"src ip", 128}, {"dst ip", 128}});
  }
  add({{"src port", 16}, {"dst port", 16}, {"udp length", 16}, {"udp checksum", 16}});
  add({{"opcode", 8}, {"solicited", 1}, {"mig", 1}, {"pad", 2}, {"tver", 4}, {"pkey", 16}, {"fecn", 1}, {"becn", 1}});
  add({{"resv6", 6}, {"dest_qp", 24}, {"ack_req", 1}, {"resv7", 7}, {"psn", 24}});
  if (info.has(kHasXrceth)) add({{"xrceth reserved", 8}, {"srqn", 24}});
  if (info.has(kHasDeth)) add({{"qkey", 32}, {"deth reserved", 8}, {"src_qp", 24}});
  if (info.has(kHasFeth)) add({{"feth reserved", 26}, {"flush", 6}});
  if (info.has(kHasReth)) add({{"va", 64}, {"rkey", 32}, {"dma length", 32}});
  if (info.has(kHasAtomicEth)) add({{"va", 64}, {"rkey", 32}, {"swap or add", 64}, {"compare", 64}});
  if (info.has(kHasAeth)) add({{"syndrome", 8}, {"msn", 24}});
  if (info.has(kHasAtomicAckEth)) add({{"original", 64}});
  if (info.has(kHasImm)) add({{"imm", 32}});
  if (info.has(kHasIeth)) add({{"inv", 32}});
  return fields;
}

/// For each kind of packet: the rules that find a change of the field. "": no such packet has the field. kNobody: any
/// value may be right, for the given reason. kSome: which rule depends on the bit.
constexpr const char* kNobody = "-";
constexpr const char* kSome = "*";  // which one depends on the bit
struct JudgedField {
  const char* field;
  std::array<const char*, 4> rule;  // requests and responses of RC, UC, UD
  const char* reason = "";
};

// A frame whose IP header is invalid is not one of RoCEv2, and counts as missing.
constexpr std::array<const char*, 4> kThenMissing = {"psn-gap", "read-response-missing", "uc-loss", "cm-unasked"};
constexpr std::array<const char*, 4> all(const char* rule) { return {rule, rule, rule, rule}; }

const JudgedField kRows[] = {
    {"version", kThenMissing},
    {"ihl", kThenMissing},
    {"dscp", all(kNobody), "each packet may have another, and routers change it"},
    {"ecn", all(kNobody), "switches mark"},
    {"ip length", {"ip-header", "ip-header", "ip-header", "ip-header"}},
    {"identification", all(kNobody), "of no meaning without fragments"},
    {"flags", all(kNobody), "a packet that is not in fragments may have DF or not"},
    {"flow label", {kNobody, kNobody, "", kNobody}, "each packet may have another"},
    {"more", all("ip-fragment")},
    {"offset", kThenMissing},
    {"ttl", all(kNobody), "routers change it"},
    {"protocol", kThenMissing},
    {"ip checksum", all("ip-header")},
    {"src ip", kThenMissing},
    {"dst ip", kThenMissing},
    {"src port", {"udp-source-port", "udp-source-port", "udp-source-port", kNobody}, "datagrams have no flow"},
    {"dst port", all("udp-port")},
    {"udp length", all("udp-length")},
    {"udp checksum", all("udp-checksum")},
    {"opcode", all(kSome)},
    {"solicited", {"solicited", "solicited", "solicited", kNobody}, "the program's choice where a message ends"},
    {"mig", all(kNobody), "paths do not migrate in RoCEv2"},
    {"pad", all("pad-bytes")},
    {"tver", all("bth-version")},
    {"pkey", {"pkey-changed", "pkey-changed", "pkey-changed", kNobody}, "a datagram's QP may have any of its port's"},
    {"fecn", all(kNobody), "set by who was marked"},
    {"becn", all(kNobody), "set by who was marked"},
    {"resv6", all("bth-reserved")},
    {"dest_qp", {"psn-gap", "response-qp", "uc-loss", "cm-unasked"}},
    {"ack_req", all(kNobody), "an ACK may be asked for anywhere"},
    {"resv7", all("bth-reserved")},
    {"psn", {"psn-gap", "ack-unsent", "uc-loss", kNobody}, "datagrams are not counted"},
    {"qkey", {"", "", "", "gsi-qkey"}},
    {"deth reserved", {"", "", "", "eth-reserved"}},
    {"src_qp", {"", "", "", "gsi-qp"}},
    {"va", {"read-retry-range", "", kNobody, ""}, "memory is not seen: only what is asked again is judged"},
    {"rkey", {"read-retry-range", "", kNobody, ""}, "memory is not seen: only what is asked again is judged"},
    {"dma length", {"write-length", "", "write-length", ""}},
    {"swap or add", {"retransmit-differs", "", "", ""}},
    {"compare", {"retransmit-differs", "", "", ""}},
    {"syndrome", {"", kSome, "", ""}},
    {"msn", {"", "msn", "", ""}},
    {"original", {"", kNobody, "", ""}, "memory is not seen: see below for what is asked again"},
    {"imm", {kNobody, "", kNobody, kNobody}, "the program's"},
    {"inv", {kNobody, "", "", ""}, "the program's"},
};

unsigned kind_of_packet(const OpcodeInfo& info) {
  if (info.service == Service::kUc) return 2;
  if (info.service == Service::kUd) return 3;
  return info.is_response() ? 1 : 0;
}

std::set<std::string> rules_of(const EditedCapture& capture) {
  std::set<std::string> rules;
  const lint::Linter linter = capture.lint();
  for (const lint::Finding& finding : linter.findings().kept()) rules.insert(lint::rule_info(finding.rule).id);
  return rules;
}

void turn(EditedFrame& frame, uint32_t bit) { frame.bytes[bit / 8] ^= static_cast<uint8_t>(0x80 >> bit % 8); }

/// Captures without faults, and short enough to be judged once for each bit.
std::vector<EditedCapture> short_and_clean() {
  std::vector<EditedCapture> captures;
  for (const auto& entry : std::filesystem::directory_iterator(UROCE_PCAP_DIR)) {
    if (entry.path().extension() != ".pcap" || entry.file_size() > 20000) continue;
    const EditedCapture capture(entry.path().stem());
    if (rules_of(capture).empty()) captures.push_back(capture);
  }
  return captures;
}

/// By kind of packet and field: the rules that found each bit at least once.
class Judged {
 public:
  void turn_each_bit(EditedCapture& capture, size_t number) {
    EditedFrame& frame = capture.at(number);
    const OpcodeInfo& info = opcode_info(frame.bth()[0]);
    uint32_t bit = 14 * 8;
    for (const BitField& field : fields_of(info, frame.is_v4())) {
      // Correcting a length would undo the change.
      const bool is_damage = field.name.ends_with("length") && field.name != "dma length";
      const bool is_sum = field.name == "ip checksum" || field.name == "version" || field.name == "ihl";
      for (uint32_t i = 0; i < field.bits; i++, bit++) {
        if (field.bits > 8 && i % 5 != 1 && i + 1 != field.bits) continue;
        const std::vector<uint8_t> whole = frame.bytes;
        turn(frame, bit);
        if (!is_damage && !is_sum) {
          frame.fix_ip_checksum();
          frame.fix_icrc();
        }
        std::set<std::string>& rules = found_[kind_of_packet(info)][field.name][i];
        rules.merge(rules_of(capture));
        frame.bytes = whole;
      }
    }
  }

  using Bits = std::map<uint32_t, std::set<std::string>>;
  const Bits& bits(unsigned kind, const char* field) { return found_[kind][field]; }

 private:
  std::array<std::map<std::string, Bits>, 4> found_;
};

TEST(EveryFieldOfAPacket, IsJudgedOrNobodyCould) {
  Judged judged;
  for (EditedCapture& capture : short_and_clean())
    for (size_t number = 1; number <= capture.size(); number++) judged.turn_each_bit(capture, number);
  for (const JudgedField& row : kRows) {
    for (unsigned kind = 0; kind < row.rule.size(); kind++) {
      const std::string rule = row.rule[kind];
      const Judged::Bits& bits = judged.bits(kind, row.field);
      EXPECT_EQ(bits.empty(), rule.empty()) << row.field << " of kind " << kind;
      for (const auto& [bit, rules] : bits) {
        std::string text;
        for (const std::string& each : rules) text += " " + each;
        if (rule == kNobody) {
          EXPECT_TRUE(rules.empty()) << row.field << " of kind " << kind << ", bit " << bit << ":" << text;
        } else {
          EXPECT_TRUE(rule == kSome ? !rules.empty() : rules.count(rule) == 1)
              << row.field << " of kind " << kind << ", bit " << bit << ":" << text;
        }
      }
    }
  }
}

/// A request with this opcode; each byte of its headers has a value of its own.
EditedFrame request_of(const OpcodeInfo& info, uint8_t opcode, uint32_t psn) {
  Bth bth;
  bth.opcode = opcode;
  bth.dest_qp = 0x123456;
  bth.psn = Psn(psn);
  test::Bytes extension;
  for (uint8_t i = 0; i < info.header_bytes; i++) extension.push_back(static_cast<uint8_t>(0x11 + i));
  // Reserved bits are zero, addresses of eight bytes are aligned, and no length is too large.
  if (info.has(kHasXrceth)) extension[0] = 0;
  const size_t at = info.has(kHasXrceth) ? Xrceth::kBytes : 0;
  if (info.has(kHasFeth)) Feth{kFlushToGlobal, 0}.encode(&extension[at]);
  if (info.has(kHasReth)) {
    const uint32_t length = info.operation == Operation::kWrite && info.is_last() ? 5 : kAtomicWriteBytes;
    Reth{0x1122334455667788, 0x99AABBCC, length}.encode(&extension[at + (info.has(kHasFeth) ? Feth::kBytes : 0)]);
  }
  if (info.has(kHasAtomicEth)) AtomicEth{0x1122334455667788, 0x99AABBCC, 0x0102030405060708, 9}.encode(&extension[at]);
  size_t bytes = info.is_last() ? 5 : 1024;
  if (info.operation == Operation::kAtomicWrite) bytes = kAtomicWriteBytes;
  const test::Bytes payload(info.has(kHasPayload) ? bytes : 0, 0x5A);
  return {Instant{}, test::frame_of(test::ipv4_path(), bth, extension, payload)};
}

class SentAgain : public ::testing::TestWithParam<int> {};

/// A header field that must be the same when a request is repeated.
bool is_same_each_time(const std::string& field) {
  // The first ones are judged by rules of their own, the others may change.
  static const std::set<std::string> kOthers = {"opcode", "pad", "tver", "pkey", "resv6", "dest_qp",
                                                "resv7",  "psn", "mig",  "fecn", "becn",  "ack_req"};
  return kOthers.count(field) == 0;
}

TEST_P(SentAgain, IsTheSameInEveryBit) {
  const auto opcode = static_cast<uint8_t>(GetParam());
  const OpcodeInfo& info = opcode_info(opcode);
  const EditedFrame sent = request_of(info, opcode, 100);
  const std::set<std::string> before = rules_of(EditedCapture({sent, sent}));
  EXPECT_EQ(before, std::set<std::string>{});
  const bool is_read = info.operation == Operation::kReadRequest;
  uint32_t bit = 14 * 8;
  bool behind_opcode = false;
  for (const BitField& field : fields_of(info, true)) {
    const bool is_compared = behind_opcode && is_same_each_time(field.name);
    behind_opcode |= field.name == "opcode";
    for (uint32_t i = 0; i < field.bits; i++, bit++) {
      if (!is_compared) continue;
      EditedFrame again = sent;
      turn(again, bit);
      again.fix_icrc();
      std::set<std::string> rules = rules_of(EditedCapture({sent, again}));
      const bool is_less = field.name == "dma length" && (sent.bytes[bit / 8] & 0x80 >> bit % 8) != 0;
      if (is_read && (is_less || field.name == "solicited")) continue;  // asks for the rest, or is judged already
      const bool is_reserved = field.name.ends_with("reserved");
      const char* const rule = is_reserved ? "eth-reserved" : is_read ? "read-retry-range" : "retransmit-differs";
      EXPECT_EQ(rules.count(rule), 1u) << opcode_name(opcode) << ", bit " << i << " of " << field.name;
    }
  }
  if (!info.has(kHasPayload)) return;
  for (size_t byte = bit / 8; byte < sent.bytes.size() - kIcrcBytes - 3; byte++) {
    EditedFrame again = sent;
    again.bytes[byte] ^= 1;
    again.fix_icrc();
    EXPECT_EQ(rules_of(EditedCapture({sent, again})), std::set<std::string>{"retransmit-content"}) << byte;
  }
}

std::vector<int> opcodes_of_requests() {
  std::vector<int> opcodes;
  for (int opcode = 0; opcode < 256; opcode++) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    const bool reliable = info.service == Service::kRc || info.service == Service::kXrc;
    if (info.operation != Operation::kReserved && reliable && !info.is_response()) opcodes.push_back(opcode);
  }
  return opcodes;
}

/// A repeated atomic is answered from the saved response.
TEST(AnsweredAgain, AnAtomicHasTheSameValueInEveryBit) {
  const EditedFrame asked = request_of(opcode_info(kOpFetchAdd), kOpFetchAdd, 100);
  Route back = test::ipv4_path();
  std::swap(back.src_ip, back.dst_ip);
  Bth bth;
  bth.opcode = kOpAtomicAcknowledge;
  bth.dest_qp = 0x654321;
  bth.psn = Psn(100);
  test::Bytes extension;
  test::append(extension, Aeth{make_syndrome(AethKind::kAck, 5), 1});
  test::append(extension, AtomicAckEth{0x0123456789abcdef});
  const EditedFrame answer{Instant{}, test::frame_of(back, bth, extension, {})};
  EXPECT_EQ(rules_of(EditedCapture({asked, answer, asked, answer})), std::set<std::string>{});
  for (uint32_t bit = 0; bit < 64; bit++) {
    EditedFrame other = answer;
    turn(other, static_cast<uint32_t>(other.ext_at() + Aeth::kBytes) * 8 + bit);
    other.fix_icrc();
    EXPECT_EQ(rules_of(EditedCapture({asked, answer, asked, other})).count("atomic-replay"), 1u) << bit;
  }
}

INSTANTIATE_TEST_SUITE_P(Opcodes, SentAgain, ::testing::ValuesIn(opcodes_of_requests()),
                         [](const auto& each) { return std::string(opcode_name(static_cast<uint8_t>(each.param))); });

}  // namespace
}  // namespace uroce
