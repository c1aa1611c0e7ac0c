// Everything that real rxe hosts sent (tests/conformance/pcap): parsed, its iCRC checked, every opcode counted, and
// each packet put together again from the parsed values by our own encoders, byte for byte.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "bytes.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "pcap.h"
#include "roce_frame.h"

namespace uroce {
namespace {

using test::append;
using test::Bytes;

struct Capture {
  const char* name;
  std::map<std::string, unsigned> opcodes;
  unsigned wrong_icrc = 0;
  unsigned bad_tver = 0;  // sent on purpose, like a wrong iCRC
};

const Capture kCaptures[] = {
    {"cm-rping",
     {{"RC_ACKNOWLEDGE", 15},
      {"RC_READ_REQUEST", 3},
      {"RC_READ_RESPONSE_ONLY", 3},
      {"RC_SEND_ONLY", 12},
      {"RC_WRITE_ONLY", 3},
      {"UD_SEND_ONLY", 5}}},
    {"cm-rping-ipv6",
     {{"RC_ACKNOWLEDGE", 10},
      {"RC_READ_REQUEST", 2},
      {"RC_READ_RESPONSE_ONLY", 2},
      {"RC_SEND_ONLY", 8},
      {"RC_WRITE_ONLY", 2},
      {"UD_SEND_ONLY", 5}}},
    {"host-peer-rc",
     {{"RC_ACKNOWLEDGE", 7},
      {"RC_ATOMIC_ACKNOWLEDGE", 4},
      {"RC_COMPARE_SWAP", 1},
      {"RC_FETCH_ADD", 4},
      {"RC_READ_REQUEST", 2},
      {"RC_READ_RESPONSE_ONLY", 2},
      {"RC_SEND_ONLY", 10},
      {"RC_WRITE_ONLY", 2}},
     1,
     1},
    {"rc-atomic-cas", {{"RC_ATOMIC_ACKNOWLEDGE", 2}, {"RC_COMPARE_SWAP", 2}}},
    {"rc-atomic-fadd", {{"RC_ATOMIC_ACKNOWLEDGE", 3}, {"RC_FETCH_ADD", 3}}},
    {"rc-ipv6",
     {{"RC_ACKNOWLEDGE", 3},
      {"RC_ATOMIC_ACKNOWLEDGE", 1},
      {"RC_FETCH_ADD", 1},
      {"RC_READ_REQUEST", 1},
      {"RC_READ_RESPONSE_FIRST", 1},
      {"RC_READ_RESPONSE_LAST", 1},
      {"RC_SEND_FIRST", 2},
      {"RC_SEND_LAST", 2},
      {"RC_WRITE_FIRST", 1},
      {"RC_WRITE_LAST", 1}}},
    {"rc-mix",
     {{"RC_ACKNOWLEDGE", 12},
      {"RC_ATOMIC_ACKNOWLEDGE", 6},
      {"RC_COMPARE_SWAP", 3},
      {"RC_FETCH_ADD", 3},
      {"RC_READ_REQUEST", 3},
      {"RC_READ_RESPONSE_FIRST", 3},
      {"RC_READ_RESPONSE_LAST", 3},
      {"RC_READ_RESPONSE_MIDDLE", 3},
      {"RC_SEND_FIRST", 6},
      {"RC_SEND_LAST", 3},
      {"RC_SEND_LAST_IMM", 3},
      {"RC_SEND_MIDDLE", 6},
      {"RC_WRITE_FIRST", 6},
      {"RC_WRITE_LAST", 3},
      {"RC_WRITE_LAST_IMM", 3},
      {"RC_WRITE_MIDDLE", 6}}},
    {"rc-mtu256",
     {{"RC_ACKNOWLEDGE", 3},
      {"RC_READ_REQUEST", 1},
      {"RC_READ_RESPONSE_FIRST", 1},
      {"RC_READ_RESPONSE_LAST", 1},
      {"RC_READ_RESPONSE_MIDDLE", 1},
      {"RC_SEND_FIRST", 2},
      {"RC_SEND_LAST", 2},
      {"RC_SEND_MIDDLE", 2},
      {"RC_WRITE_FIRST", 1},
      {"RC_WRITE_LAST", 1},
      {"RC_WRITE_MIDDLE", 1}}},
    {"rc-mw",
     {{"RC_ACKNOWLEDGE", 2},
      {"RC_READ_REQUEST", 1},
      {"RC_READ_RESPONSE_ONLY", 1},
      {"RC_SEND_ONLY_INV", 1},
      {"RC_WRITE_ONLY", 1}}},
    {"rc-nak-bad-rkey",
     {{"RC_ACKNOWLEDGE", 4},
      {"RC_FETCH_ADD", 1},
      {"RC_READ_REQUEST", 1},
      {"RC_WRITE_FIRST", 1},
      {"RC_WRITE_LAST", 1},
      {"RC_WRITE_MIDDLE", 3},
      {"RC_WRITE_ONLY", 1}}},
    {"rc-rnr", {{"RC_ACKNOWLEDGE", 16}, {"RC_SEND_ONLY", 16}}},
    {"rc-send-imm",
     {{"RC_ACKNOWLEDGE", 5},
      {"RC_SEND_FIRST", 2},
      {"RC_SEND_LAST_IMM", 2},
      {"RC_SEND_MIDDLE", 2},
      {"RC_SEND_ONLY_IMM", 3}}},
    {"rc-send-pad", {{"RC_ACKNOWLEDGE", 6}, {"RC_SEND_FIRST", 1}, {"RC_SEND_LAST", 1}, {"RC_SEND_ONLY", 5}}},
    {"rc-send-zero",
     {{"RC_ACKNOWLEDGE", 6},
      {"RC_READ_REQUEST", 2},
      {"RC_READ_RESPONSE_ONLY", 2},
      {"RC_SEND_ONLY", 2},
      {"RC_SEND_ONLY_IMM", 1},
      {"RC_WRITE_ONLY", 2},
      {"RC_WRITE_ONLY_IMM", 1}}},
    {"uc-send",
     {{"UC_SEND_FIRST", 3}, {"UC_SEND_LAST", 2}, {"UC_SEND_LAST_IMM", 1}, {"UC_SEND_MIDDLE", 3}, {"UC_SEND_ONLY", 3}}},
    {"uc-write",
     {{"UC_WRITE_FIRST", 2},
      {"UC_WRITE_LAST", 1},
      {"UC_WRITE_LAST_IMM", 1},
      {"UC_WRITE_MIDDLE", 5},
      {"UC_WRITE_ONLY", 2},
      {"UC_WRITE_ONLY_IMM", 1}}},
    {"ud-ipv6", {{"UD_SEND_ONLY", 2}}},
    {"ud-send", {{"UD_SEND_ONLY", 5}, {"UD_SEND_ONLY_IMM", 2}}},
};

Bytes encode_again(const PacketView& v) {
  Bytes body;
  append(body, v.bth);
  if (v.info->has(kHasDeth)) append(body, v.deth());
  if (v.info->has(kHasReth)) append(body, v.reth());
  if (v.info->has(kHasAtomicEth)) append(body, v.atomic_eth());
  if (v.info->has(kHasAeth)) append(body, v.aeth());
  if (v.info->has(kHasAtomicAckEth)) append(body, v.atomic_ack_eth());
  if (v.info->has(kHasImm)) append(body, v.imm());
  if (v.info->has(kHasIeth)) append(body, v.ieth());
  body.insert(body.end(), v.payload, v.payload + v.payload_bytes + v.bth.pad_count);

  Route spec;
  std::copy_n(v.l2, 6, spec.dst_mac.bytes.begin());
  std::copy_n(v.l2 + 6, 6, spec.src_mac.bytes.begin());
  spec.vlan_id = v.vlan_id;
  spec.src_ip = v.src_ip;
  spec.dst_ip = v.dst_ip;
  spec.traffic_class = v.traffic_class;
  spec.hop_limit = v.hop_limit;
  spec.flow_label = v.ipv6 ? load_be32(v.l3) & 0xFFFFF : 0;
  spec.udp_src_port = v.udp_src_port;
  return test::frame_of(spec, body);
}

/// Linux's rxe numbers its IPv4 packets in the identification field, which the iCRC covers; ours is 0. Clears it in the
/// original.
Bytes without_identification(Bytes frame, const PacketView& v) {
  if (v.ipv6) return frame;
  const size_t ip = static_cast<size_t>(v.l3 - v.l2);
  store_be16(frame.data() + ip + 4, 0);
  store_be16(frame.data() + ip + 10, 0);
  uint32_t sum = 0;
  for (size_t i = ip; i < ip + 20; i += 2) sum += load_be16(frame.data() + i);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  store_be16(frame.data() + ip + 10, static_cast<uint16_t>(~sum));
  const size_t crc_at = ip + v.l3_bytes - kIcrcBytes;
  const size_t ext = static_cast<size_t>(v.ext - v.l2);
  const uint32_t state = icrc_begin(frame.data() + ip, false);
  icrc_store(frame.data() + crc_at, crc32_update(state, frame.data() + ext, crc_at - ext));
  return frame;
}

class Captures : public testing::TestWithParam<Capture> {};

TEST_P(Captures, ParseCheckAndEncodeAgain) {
  std::map<std::string, unsigned> opcodes;
  unsigned wrong_icrc = 0;
  unsigned bad_tver = 0;
  for (const test::CapturedFrame& frame :
       test::read_pcap(std::string(UROCE_PCAP_DIR "/") + GetParam().name + ".pcap")) {
    PacketView view;
    const ParseResult result = parse_frame(frame.bytes, view);
    if (result == ParseResult::kBadTver) {
      bad_tver++;
      continue;
    }
    ASSERT_EQ(result, ParseResult::kOk) << parse_result_name(result);
    opcodes[opcode_name(view.bth.opcode)]++;
    if (!icrc_matches(view)) {
      wrong_icrc++;
      continue;
    }
    ASSERT_EQ(test::to_hex(encode_again(view)), test::to_hex(without_identification(frame.bytes, view)));
  }
  EXPECT_EQ(opcodes, GetParam().opcodes);
  EXPECT_EQ(wrong_icrc, GetParam().wrong_icrc);
  EXPECT_EQ(bad_tver, GetParam().bad_tver);
}

INSTANTIATE_TEST_SUITE_P(Rxe, Captures, testing::ValuesIn(kCaptures), [](const auto& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace uroce
