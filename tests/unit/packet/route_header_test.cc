#include "packet/route_header.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "bytes.h"
#include "packet/crc32.h"
#include "packet/icrc.h"
#include "packet/packet.h"

namespace uroce {
namespace {

using test::to_hex;

Route ipv4_spec() {
  Route spec;
  spec.src_mac = *parse_mac("52:54:00:00:00:01");
  spec.dst_mac = *parse_mac("52:54:00:00:00:02");
  spec.src_ip = *parse_ip("10.0.0.1");
  spec.dst_ip = *parse_ip("10.0.0.2");
  spec.udp_src_port = 0xC123;
  return spec;
}

Route ipv6_spec() {
  Route spec = ipv4_spec();
  spec.src_ip = *parse_ip("fd00::1");
  spec.dst_ip = *parse_ip("fd00::2");
  spec.traffic_class = 0x6a;
  spec.flow_label = 0xfabcde;  // only 20 bits go out
  spec.hop_limit = 9;
  return spec;
}

/// The headers, with nothing written behind them.
std::string written(const RouteHeader& path, uint32_t udp_payload_bytes) {
  uint8_t frame[RouteHeader::kMaxBytes + 16];
  std::memset(frame, 0xee, sizeof frame);
  path.write(frame, udp_payload_bytes);
  for (uint32_t i = path.bytes(); i < sizeof frame; i++) EXPECT_EQ(frame[i], 0xee) << "byte " << i;
  return to_hex({frame, path.bytes()});
}

TEST(RouteHeader, Ipv4LiteralBytes) {
  const RouteHeader path(ipv4_spec());
  EXPECT_EQ(path.bytes(), 42u);
  EXPECT_EQ(path.l3_offset(), 14u);
  EXPECT_FALSE(path.ipv6());
  // Checksum by hand: 4500 + 002c + 4000 + 4011 + 0a00 + 0001 + 0a00 + 0002 = d940, complement 26bf.
  EXPECT_EQ(written(path, 16),
            "525400000002525400000001"
            "0800"
            "4500002c00004000401126bf0a0000010a000002"
            "c12312b700180000");
}

TEST(RouteHeader, Ipv4OnAVlan) {
  Route spec = ipv4_spec();
  spec.vlan_id = 100;
  spec.pcp = 5;
  spec.traffic_class = 0x02;
  spec.hop_limit = 1;
  const RouteHeader path(spec);
  EXPECT_EQ(path.bytes(), 46u);
  EXPECT_EQ(path.l3_offset(), 18u);
  // 4502 + 002c + 4000 + 0111 + 0a00 + 0001 + 0a00 + 0002 = 9a42, complement 65bd.
  EXPECT_EQ(written(path, 16),
            "525400000002525400000001"
            "8100a064"
            "0800"
            "4502002c00004000011165bd0a0000010a000002"
            "c12312b700180000");
}

TEST(RouteHeader, Ipv6LiteralBytes) {
  const RouteHeader path(ipv6_spec());
  EXPECT_EQ(path.bytes(), 62u);
  EXPECT_TRUE(path.ipv6());
  EXPECT_EQ(written(path, 0x1010),
            "525400000002525400000001"
            "86dd"
            "66aabcde10181109"
            "fd000000000000000000000000000001"
            "fd000000000000000000000000000002"
            "c12312b710180000");
}

TEST(RouteHeader, Ipv6OnAVlanIsTheLongest) {
  Route spec = ipv6_spec();
  spec.vlan_id = 4094;
  const RouteHeader path(spec);
  EXPECT_EQ(path.bytes(), RouteHeader::kMaxBytes);
  EXPECT_EQ(written(path, 16).substr(24, 12), "81000ffe86dd");
}

TEST(RouteHeader, TheMacCanComeLater) {
  RouteHeader path(ipv4_spec());
  path.set_dst_mac(*parse_mac("0a:0b:0c:0d:0e:0f"));
  EXPECT_EQ(written(path, 16).substr(0, 24), "0a0b0c0d0e0f525400000001");
}

TEST(RouteHeader, EveryChecksumHolds) {
  // The parser refuses a wrong checksum: every length, and addresses that make the sum wrap.
  Route spec = ipv4_spec();
  for (const char* address : {"10.0.0.1", "255.255.255.254", "0.0.0.1", "191.191.64.63"}) {
    spec.src_ip = *parse_ip(address);
    spec.traffic_class = 0xff;
    const RouteHeader path(spec);
    std::vector<uint8_t> frame(path.bytes() + 5000);
    for (uint32_t bytes = 16; bytes < 4200; bytes++) {
      path.write(frame.data(), bytes);
      frame[path.bytes()] = 0x04;  // RC SEND ONLY
      PacketView view;
      ASSERT_EQ(parse_frame({frame.data(), path.bytes() + bytes}, view), ParseResult::kOk) << address << " " << bytes;
      ASSERT_EQ(view.payload_bytes, bytes - 16);
    }
  }
}

/// RFC 791's sum, word by word: a carry out of the 16 bits is added at once.
uint16_t ones_complement_sum(const uint8_t* words, size_t count) {
  uint16_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    const auto word = static_cast<uint16_t>(words[2 * i] << 8 | words[2 * i + 1]);
    const bool carry = sum > 0xFFFF - word;
    sum = static_cast<uint16_t>(sum + word + (carry ? 1 : 0));
  }
  return sum;
}

/// The sum of a header without its checksum; carries stay above the 16 bits.
uint32_t wide_sum(const uint8_t* ip) {
  uint32_t sum = 0;
  for (size_t i = 0; i < 20; i += 2) sum += i == 10 ? 0u : static_cast<uint32_t>(ip[i] << 8 | ip[i + 1]);
  return sum;
}

/// Random headers, half of them changed so that adding the carries carries again.
TEST(RouteHeader, ChecksumsOfRandomHeaders) {
  SeededRandom random(8);
  unsigned second_carries = 0;
  std::vector<uint8_t> frame(600);
  const uint8_t* ip = frame.data() + 14;
  for (int repeat = 0; repeat < 20'000; repeat++) {
    Route spec = ipv4_spec();
    uint32_t source = random.next_u32();
    spec.src_ip = IpAddress::v4(source);
    spec.dst_ip = IpAddress::v4(random.next_u32());
    spec.traffic_class = static_cast<uint8_t>(random.next_u32());
    spec.hop_limit = static_cast<uint8_t>(random.next_u32());
    const uint32_t bytes = 16 + random.below(500);
    RouteHeader(spec).write(frame.data(), bytes);
    if (repeat % 2 == 0) {
      const uint32_t low = (source + 0xFFFF - random.below(8) - wide_sum(ip)) & 0xFFFF;
      source = (source & 0xFFFF0000u) | low;
      spec.src_ip = IpAddress::v4(source);
    }
    const RouteHeader path(spec);
    path.write(frame.data(), bytes);
    second_carries += (wide_sum(ip) & 0xFFFF) + (wide_sum(ip) >> 16) > 0xFFFF ? 1 : 0;
    ASSERT_EQ(ones_complement_sum(ip, 10), 0xFFFF) << to_string(spec.src_ip) << " " << to_string(spec.dst_ip);
    frame[path.bytes()] = 0x04;  // RC SEND ONLY
    PacketView view;
    const std::span<const uint8_t> whole(frame.data(), path.bytes() + bytes);
    ASSERT_EQ(parse_frame(whole, view), ParseResult::kOk);
    frame[14 + 10 + random.below(10)] ^= static_cast<uint8_t>(1u << random.below(8));  // checksum or an address
    ASSERT_EQ(parse_frame(whole, view), ParseResult::kBadIpHeader);
  }
  EXPECT_GT(second_carries, 2000u);
}

/// Compares headers and BTH written together with both written separately.
void expect_as_written_apart(const RouteHeader& path, const Bth& bth, uint32_t udp_payload_bytes) {
  uint8_t expected[RouteHeader::kMaxBytes + Bth::kBytes + 16], frame[sizeof expected];
  std::memset(expected, 0xee, sizeof expected);
  std::memset(frame, 0xee, sizeof frame);
  path.write(expected, udp_payload_bytes, bth.psn);
  bth.encode(expected + path.bytes());
  const RouteHeader::Summed summed = path.write(frame, udp_payload_bytes, bth);
  ASSERT_EQ(to_hex(frame), to_hex(expected));
  ASSERT_LE(summed.bth_bytes, Bth::kBytes);
  const uint8_t* const rest = frame + path.bytes() + summed.bth_bytes;
  ASSERT_EQ(crc32_update(summed.crc, rest, Bth::kBytes - summed.bth_bytes),
            icrc_begin(frame + path.l3_offset(), path.ipv6()));
}

/// Cached headers are used from the third packet of the same length on.
TEST(RouteHeader, HeadersThatAreAlikeAreKept) {
  for (const Route& spec : {ipv4_spec(), ipv6_spec()}) {
    RouteHeader path(spec);
    uint8_t frame[RouteHeader::kMaxBytes + Bth::kBytes];
    Bth bth{.opcode = 4, .dest_qp = 0x11};
    const auto kept = [&](uint32_t bytes) {
      bth.psn += 1;
      return path.write(frame, bytes, bth).bth_bytes == Bth::kHeadBytes;
    };
    EXPECT_FALSE(kept(20));
    EXPECT_FALSE(kept(24));
    EXPECT_FALSE(kept(20));
    EXPECT_FALSE(kept(20));
    EXPECT_TRUE(kept(20));
    EXPECT_FALSE(kept(24)) << "one that is different changes nothing";
    EXPECT_TRUE(kept(20));
    path.set_dst_mac(*parse_mac("52:54:00:00:00:77"));
    EXPECT_FALSE(kept(20));
  }
}

TEST(RouteHeader, WithTheBthItIsTheSameHoweverOftenItWasWritten) {
  SeededRandom random(3);
  for (const bool is_signed : {false, true}) {
    for (const Route& plain : {ipv4_spec(), ipv6_spec()}) {
      for (const uint16_t vlan_id : {uint16_t{0}, uint16_t{100}}) {
        Route spec = plain;
        spec.vlan_id = vlan_id;
        spec.traffic_class = 0x6a;
        RouteHeader path(spec);
        if (is_signed) path.sign(Signature(0x123, 0x456));
        for (int i = 0; i < 500; i++) {
          Bth bth;
          bth.opcode = static_cast<uint8_t>(4 + random.below(2));
          bth.dest_qp = 0xABCDEF - random.below(2);
          bth.resv8a = static_cast<uint8_t>(random.below(2));
          bth.ack_req = random.below(2) == 0;
          bth.psn = Psn(random.next_u32());
          expect_as_written_apart(path, bth, 20 + 4 * random.below(2));
        }
      }
    }
  }
}

TEST(RouteHeader, WhatIsKeptChangesWithTheMacAndTheSignature) {
  RouteHeader path(ipv4_spec());
  const Bth bth{.opcode = 4, .dest_qp = 0x11};
  for (int i = 0; i < 3; i++) expect_as_written_apart(path, bth, 20);
  path.set_dst_mac(*parse_mac("52:54:00:00:00:77"));
  for (int i = 0; i < 3; i++) expect_as_written_apart(path, bth, 20);
  path.sign(Signature(1, 2));
  for (int i = 0; i < 3; i++) expect_as_written_apart(path, bth, 20);
  RouteHeader ipv6(ipv6_spec());
  for (int i = 0; i < 3; i++) expect_as_written_apart(ipv6, bth, 20);
  ipv6.sign(Signature(1, 2));
  for (int i = 0; i < 3; i++) expect_as_written_apart(ipv6, bth, 20);
}

TEST(RouteHeader, TheDestinationIsFoundBehindEveryHeader) {
  for (Route spec : {ipv4_spec(), ipv6_spec()}) {
    for (const uint16_t vlan_id : {uint16_t{0}, uint16_t{100}}) {
      spec.vlan_id = vlan_id;
      const RouteHeader path(spec);
      uint8_t frame[RouteHeader::kMaxBytes + Bth::kBytes] = {};
      path.write(frame, Bth::kBytes + kIcrcBytes);
      frame[path.bytes() + 4] = 0xff;  // reserved
      frame[path.bytes() + 5] = 0x12;
      frame[path.bytes() + 6] = 0x34;
      frame[path.bytes() + 7] = 0x56;
      EXPECT_EQ(dest_qp_of(frame), 0x123456u) << path.bytes();
      const FrameEnds ends = ends_of(frame);
      EXPECT_EQ(ends.src_ip, spec.src_ip);
      EXPECT_EQ(ends.dst_ip, spec.dst_ip);
      EXPECT_EQ(ends.vlan_id, vlan_id);
    }
  }
}

}  // namespace
}  // namespace uroce
