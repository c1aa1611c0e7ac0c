// The parser: what it accepts, what it refuses and why, and that no bytes at all lead it outside the frame. The frames
// are copied into memory of exactly their size, so that the address sanitizer sees every byte read behind them.
#include "packet/packet.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/random.h"
#include "bytes.h"
#include "roce_frame.h"
#include "uroce/port.h"

namespace uroce {

void PrintTo(ParseResult result, std::ostream* out) { *out << parse_result_name(result); }

namespace {

using test::append;
using test::Bytes;
using test::frame_of;
using test::from_hex;
using test::ipv4_path;
using test::ipv6_path;
using test::on_vlan;

/// Parses a copy that ends where its allocation ends.
struct Parsed {
  explicit Parsed(std::span<const uint8_t> frame) : bytes(frame.size()), copy(new uint8_t[frame.size()]) {
    std::copy(frame.begin(), frame.end(), copy.get());
    result = parse_frame({copy.get(), bytes}, view);
  }
  size_t bytes;
  std::unique_ptr<uint8_t[]> copy;
  PacketView view;
  ParseResult result = ParseResult::kNotRoce;
};

ParseResult parse(const Bytes& frame) { return Parsed(frame).result; }

void expect_view_inside(const Parsed& p) {
  const uint8_t* begin = p.copy.get();
  const uint8_t* end = begin + p.bytes;
  const PacketView& v = p.view;
  ASSERT_EQ(v.l2, begin);
  ASSERT_GE(v.l3, begin + 14);
  ASSERT_LE(v.l3 + v.l3_bytes, end);
  ASSERT_EQ(v.bth_bytes, v.l3 + (v.ipv6 ? 48 : 28));
  ASSERT_EQ(v.ext, v.bth_bytes + Bth::kBytes);
  ASSERT_NE(v.info, nullptr);
  ASSERT_EQ(v.payload, v.ext + v.info->header_bytes);
  ASSERT_EQ(v.payload + v.payload_bytes + v.bth.pad_count + kIcrcBytes, v.l3 + v.l3_bytes);
}

Bytes write_only(const Route& path) {
  Bytes extension;
  append(extension, Reth{0x1122334455667788, 0x99aabbcc, 5});
  return frame_of(path, Bth{.opcode = 0x0a, .dest_qp = 0x123456, .ack_req = true, .psn = Psn(0xabcdef)}, extension,
                  {1, 2, 3, 4, 5});
}

TEST(ParseFrame, LiteralWriteOverIpv4) {
  const Bytes frame = from_hex(
      "525400000002 525400000001 0800"
      "4500 0044 0000 4000 40 11 26a7 0a000001 0a000002"
      "c123 12b7 0030 0000"
      "0a 30 ffff 00 123456 80 abcdef"
      "1122334455667788 99aabbcc 00000005"
      "0102030405 000000"
      "00000000");
  const Parsed p(frame);
  ASSERT_EQ(p.result, ParseResult::kOk);
  const PacketView& v = p.view;
  expect_view_inside(p);
  EXPECT_EQ(v.bth.opcode, 0x0a);
  EXPECT_EQ(v.bth.dest_qp, 0x123456u);
  EXPECT_EQ(v.bth.psn, Psn(0xabcdef));
  EXPECT_TRUE(v.bth.ack_req);
  EXPECT_EQ(v.src_ip, *parse_ip("10.0.0.1"));
  EXPECT_EQ(v.dst_ip, *parse_ip("10.0.0.2"));
  EXPECT_EQ(v.udp_src_port, 0xc123);
  EXPECT_EQ(v.vlan_id, 0);
  EXPECT_EQ(v.hop_limit, 64);
  EXPECT_EQ(v.traffic_class, 0);
  EXPECT_FALSE(v.ipv6);
  EXPECT_EQ(v.reth().va, 0x1122334455667788u);
  EXPECT_EQ(v.reth().rkey, 0x99aabbccu);
  EXPECT_EQ(v.reth().dma_length, 5u);
  EXPECT_EQ(v.payload_bytes, 5u);
  EXPECT_EQ(v.payload[4], 5);
  EXPECT_EQ(v.l3_bytes, 68u);
}

TEST(ParseFrame, LiteralAckOverIpv6OnAVlan) {
  const Bytes frame = from_hex(
      "525400000002 525400000001 8100 e064 86dd"
      "6 03 12345 001c 11 07 fd000000000000000000000000000001 fd000000000000000000000000000002"
      "ffff 12b7 001c 0000"
      "11 00 ffff c0 000002 00 000007"
      "1f 000003"
      "00000000");
  const Parsed p(frame);
  ASSERT_EQ(p.result, ParseResult::kOk);
  expect_view_inside(p);
  EXPECT_TRUE(p.view.ipv6);
  EXPECT_EQ(p.view.vlan_id, 100);
  EXPECT_EQ(p.view.traffic_class, 0x03);
  EXPECT_TRUE(p.view.ecn_marked());
  EXPECT_EQ(p.view.hop_limit, 7);
  EXPECT_EQ(p.view.src_ip, *parse_ip("fd00::1"));
  EXPECT_EQ(p.view.dst_ip, *parse_ip("fd00::2"));
  EXPECT_EQ(p.view.bth.resv8a, 0xc0);
  EXPECT_EQ(p.view.aeth().syndrome, 0x1f);
  EXPECT_EQ(p.view.aeth().msn, 3u);
  EXPECT_EQ(p.view.payload_bytes, 0u);
}

TEST(ParseFrame, ExtensionHeadersAreWhereTheOpcodeSays) {
  Bytes x;
  append(x, Reth{7, 8, 3});
  append(x, ImmDt{0x04030201});
  const Parsed write(frame_of(ipv4_path(), Bth{.opcode = 0x0b}, x, {9, 9, 9}));
  ASSERT_EQ(write.result, ParseResult::kOk);
  EXPECT_EQ(write.view.reth().rkey, 8u);
  EXPECT_EQ(write.view.imm().imm, 0x04030201u);
  EXPECT_EQ(write.view.payload_bytes, 3u);

  x.clear();
  append(x, Aeth{0, 5});
  append(x, AtomicAckEth{0x1111});
  const Parsed atomic_ack(frame_of(ipv4_path(), Bth{.opcode = 0x12}, x, {}));
  ASSERT_EQ(atomic_ack.result, ParseResult::kOk);
  EXPECT_EQ(atomic_ack.view.aeth().msn, 5u);
  EXPECT_EQ(atomic_ack.view.atomic_ack_eth().original, 0x1111u);

  x = {0, 0, 0, 1};  // XRCETH
  append(x, AtomicEth{1, 2, 3, 4});
  const Parsed xrc(frame_of(ipv4_path(), Bth{.opcode = 0xb3}, x, {}));
  ASSERT_EQ(xrc.result, ParseResult::kOk);
  EXPECT_EQ(xrc.view.atomic_eth().rkey, 2u);
  EXPECT_EQ(xrc.view.atomic_eth().compare, 4u);
  EXPECT_EQ(xrc.view.xrceth().srqn, 1u);

  x = {0xff, 0xab, 0xcd, 0xef};  // the first byte is reserved
  append(x, ImmDt{0x04030201});
  const Parsed send(frame_of(ipv4_path(), Bth{.opcode = 0xa5}, x, {1, 2}));
  ASSERT_EQ(send.result, ParseResult::kOk);
  EXPECT_EQ(send.view.xrceth().srqn, 0xabcdefu);
  EXPECT_EQ(send.view.imm().imm, 0x04030201u);
  EXPECT_EQ(send.view.payload_bytes, 2u);

  x.clear();
  append(x, Ieth{0xfeed});
  const Parsed invalidate(frame_of(ipv4_path(), Bth{.opcode = 0x17}, x, {1}));
  ASSERT_EQ(invalidate.result, ParseResult::kOk);
  EXPECT_EQ(invalidate.view.ieth().rkey, 0xfeedu);

  x.clear();
  append(x, Deth{0x80010000, 1});
  append(x, ImmDt{0x0d0c0b0a});
  const Parsed datagram(frame_of(ipv6_path(), Bth{.opcode = 0x65, .dest_qp = 1}, x, {1, 2, 3, 4}));
  ASSERT_EQ(datagram.result, ParseResult::kOk);
  EXPECT_EQ(datagram.view.deth().qkey, 0x80010000u);
  EXPECT_EQ(datagram.view.deth().src_qp, 1u);
  EXPECT_EQ(datagram.view.imm().imm, 0x0d0c0b0au);
}

TEST(ParseFrame, EveryTruncationIsTruncated) {
  for (const Route& path : {ipv4_path(), ipv6_path(), on_vlan(ipv4_path(), 5), on_vlan(ipv6_path(), 5)}) {
    const Bytes frame = write_only(path);
    EXPECT_EQ(parse(frame), ParseResult::kOk);
    for (size_t bytes = 0; bytes < frame.size(); bytes++) {
      ASSERT_EQ(Parsed(std::span(frame).first(bytes)).result, ParseResult::kTruncated) << bytes;
    }
  }
}

TEST(ParseFrame, MinimumSizePaddingIsIgnored) {
  for (const Route& path : {ipv4_path(), ipv6_path()}) {
    Bytes frame = write_only(path);
    const Parsed exact(frame);
    for (int more = 0; more < 64; more++) {
      frame.push_back(0xff);
      const Parsed padded(frame);
      ASSERT_EQ(padded.result, ParseResult::kOk);
      EXPECT_EQ(padded.view.payload_bytes, exact.view.payload_bytes);
      EXPECT_EQ(padded.view.l3_bytes, exact.view.l3_bytes);
    }
  }
}

TEST(ParseFrame, WhatBelongsToOthers) {
  const Bytes frame = write_only(ipv4_path());
  const auto with = [&frame](size_t at, std::initializer_list<uint8_t> bytes) {
    Bytes changed = frame;
    std::copy(bytes.begin(), bytes.end(), changed.begin() + static_cast<std::ptrdiff_t>(at));
    return parse(changed);
  };
  EXPECT_EQ(with(12, {0x08, 0x06}), ParseResult::kNotRoce);  // ARP
  EXPECT_EQ(with(12, {0x88, 0xa8}), ParseResult::kNotRoce);  // a service tag
  EXPECT_EQ(with(12, {0x89, 0x15}), ParseResult::kNotRoce);  // RoCE v1
  EXPECT_EQ(with(23, {6}), ParseResult::kNotRoce);           // TCP
  EXPECT_EQ(with(23, {1}), ParseResult::kNotRoce);           // ICMP
  EXPECT_EQ(with(36, {0x12, 0xb8}), ParseResult::kNotRoce);  // another port
  EXPECT_EQ(with(14, {0x46}), ParseResult::kNotRoce);        // options, and no RoCE port behind them
  Bytes twice = write_only(on_vlan(ipv4_path(), 7));
  const Bytes tag = {0x81, 0x00, 0x00, 0x05};
  twice.insert(twice.begin() + 12, tag.begin(), tag.end());
  EXPECT_EQ(parse(twice), ParseResult::kNotRoce);  // two tags

  Bytes ipv6 = write_only(ipv6_path());
  ipv6[20] = 58;
  EXPECT_EQ(parse(ipv6), ParseResult::kNotRoce);  // ICMPv6
  ipv6[20] = 0;
  EXPECT_EQ(parse(ipv6), ParseResult::kNotRoce);                                    // hop-by-hop options
  EXPECT_EQ(parse(Bytes(ipv6.begin(), ipv6.begin() + 54)), ParseResult::kNotRoce);  // and nothing behind them
  ipv6[20] = 44;
  ipv6[54] = 58;
  EXPECT_EQ(parse(ipv6), ParseResult::kNotRoce);  // a fragment, but of ICMPv6
}

TEST(ParseFrame, PriorityTagIsUntagged) {
  Bytes frame = write_only(ipv4_path());
  const Bytes tag = {0x81, 0x00, 0xe0, 0x00};
  frame.insert(frame.begin() + 12, tag.begin(), tag.end());
  const Parsed p(frame);
  ASSERT_EQ(p.result, ParseResult::kOk);
  EXPECT_EQ(p.view.vlan_id, 0);
}

/// Repairs the IPv4 checksum after a change to the header.
void fix_checksum(Bytes& frame) {
  frame[24] = frame[25] = 0;
  uint32_t sum = 0;
  for (size_t i = 14; i < 34; i += 2) sum += load_be16(frame.data() + i);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  store_be16(frame.data() + 24, static_cast<uint16_t>(~sum));
}

TEST(ParseFrame, BadIpHeaders) {
  Bytes frame = write_only(ipv4_path());
  frame[14] = 0x65;
  EXPECT_EQ(parse(frame), ParseResult::kBadIpHeader);  // version 6 in an IPv4 frame
  frame[14] = 0x44;
  EXPECT_EQ(parse(frame), ParseResult::kBadIpHeader);  // header length below 20
  for (size_t at = 14; at < 34; at++) {
    for (int bit = 0; bit < 8; bit++) {
      frame = write_only(ipv4_path());
      frame[at] = static_cast<uint8_t>(frame[at] ^ (1 << bit));
      EXPECT_NE(parse(frame), ParseResult::kOk) << "bit " << bit << " of byte " << at;
    }
  }
  frame = write_only(ipv4_path());
  frame[24] ^= 0xff;
  EXPECT_EQ(parse(frame), ParseResult::kBadIpHeader);

  Bytes options = write_only(ipv4_path());  // four bytes of no-operation options, all lengths right
  options[14] = 0x46;
  options[17] = static_cast<uint8_t>(options[17] + 4);
  options.insert(options.begin() + 34, {1, 1, 1, 1});
  fix_checksum(options);
  EXPECT_EQ(parse(options), ParseResult::kBadIpHeader);

  Bytes ipv6 = write_only(ipv6_path());
  ipv6[14] = 0x45;
  EXPECT_EQ(parse(ipv6), ParseResult::kBadIpHeader);
}

TEST(ParseFrame, Fragments) {
  for (const uint16_t field : std::initializer_list<uint16_t>{0x2000, 0x0001, 0x3fff, 0x6000, 0x4100}) {
    Bytes frame = write_only(ipv4_path());
    store_be16(frame.data() + 20, field);
    fix_checksum(frame);
    EXPECT_EQ(parse(frame), ParseResult::kFragmented) << field;
  }
  Bytes no_df = write_only(ipv4_path());
  store_be16(no_df.data() + 20, 0);
  fix_checksum(no_df);
  EXPECT_EQ(parse(no_df), ParseResult::kOk);

  Bytes ipv6 = write_only(ipv6_path());
  ipv6[20] = 44;
  ipv6[54] = 17;  // the fragment header stands where UDP stood
  EXPECT_EQ(parse(ipv6), ParseResult::kFragmented);
}

TEST(ParseFrame, LengthFieldsThatLie) {
  const auto lengths = [](const Route& path, uint32_t ip, uint32_t udp) {
    Bytes frame = write_only(path);
    const bool ipv6 = !path.src_ip.is_v4();
    store_be16(frame.data() + (ipv6 ? 18 : 16), static_cast<uint16_t>(ip));
    store_be16(frame.data() + (ipv6 ? 58 : 38), static_cast<uint16_t>(udp));
    if (!ipv6) fix_checksum(frame);
    return parse(frame);
  };
  EXPECT_EQ(lengths(ipv4_path(), 68, 48), ParseResult::kOk);
  EXPECT_EQ(lengths(ipv4_path(), 68, 47), ParseResult::kLengthMismatch);
  EXPECT_EQ(lengths(ipv4_path(), 68, 49), ParseResult::kLengthMismatch);
  EXPECT_EQ(lengths(ipv4_path(), 68, 0), ParseResult::kLengthMismatch);
  EXPECT_EQ(lengths(ipv4_path(), 68, 65535), ParseResult::kLengthMismatch);
  EXPECT_EQ(lengths(ipv4_path(), 69, 49), ParseResult::kTruncated);
  EXPECT_EQ(lengths(ipv4_path(), 65535, 65515), ParseResult::kTruncated);
  EXPECT_EQ(lengths(ipv4_path(), 27, 7), ParseResult::kTruncated);
  EXPECT_EQ(lengths(ipv4_path(), 0, 48), ParseResult::kTruncated);
  EXPECT_EQ(lengths(ipv4_path(), 28, 8), ParseResult::kTruncated);   // no BTH
  EXPECT_EQ(lengths(ipv4_path(), 43, 23), ParseResult::kTruncated);  // BTH, and three bytes of iCRC
  EXPECT_EQ(lengths(ipv4_path(), 59, 39), ParseResult::kTruncated);  // RETH cut
  EXPECT_EQ(lengths(ipv4_path(), 60, 40), ParseResult::kBadPad);     // no room for the pad
  EXPECT_EQ(lengths(ipv6_path(), 48, 48), ParseResult::kOk);
  EXPECT_EQ(lengths(ipv6_path(), 48, 47), ParseResult::kLengthMismatch);
  EXPECT_EQ(lengths(ipv6_path(), 49, 49), ParseResult::kTruncated);
  EXPECT_EQ(lengths(ipv6_path(), 7, 7), ParseResult::kTruncated);
  EXPECT_EQ(lengths(ipv6_path(), 0, 0), ParseResult::kTruncated);
}

TEST(ParseFrame, TransportVersionMustBeZero) {
  for (uint8_t tver = 1; tver < 16; tver++) {
    EXPECT_EQ(parse(frame_of(ipv4_path(), Bth{.opcode = 0x04, .tver = tver}, {}, {})), ParseResult::kBadTver);
  }
}

TEST(ParseFrame, TheOneDatagramThatCrashedAnotherStack) {
  // Reserved opcode 0xff to the multicast QPN, 48 bytes.
  Bytes body;
  append(body, Bth{.opcode = 0xff, .dest_qp = 0xffffff});
  EXPECT_EQ(parse(frame_of(ipv4_path(), body)), ParseResult::kUnknownOpcode);
}

TEST(ParseFrame, EveryOpcodeAtEveryLengthWithEveryPad) {
  unsigned accepted = 0;
  for (const Route& path : {ipv4_path(), ipv6_path()}) {
    for (unsigned opcode = 0; opcode < 256; opcode++) {
      const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
      for (uint32_t bytes = 0; bytes <= 128; bytes++) {
        for (uint8_t pad = 0; pad < 4; pad++) {
          Bytes body(bytes >= 4 ? bytes - 4 : 0);
          if (body.size() > 1) body[1] = static_cast<uint8_t>(pad << 4);
          if (!body.empty()) body[0] = static_cast<uint8_t>(opcode);
          Bytes frame = frame_of(path, body);
          if (bytes < 4) continue;  // shorter than what frame_of makes; other tests cut frames
          const uint32_t fixed = 12u + info.header_bytes + 4;
          ParseResult expected = ParseResult::kOk;
          const bool known = info.operation != Operation::kReserved;
          if (bytes < 16 || (known && bytes < fixed)) {
            expected = ParseResult::kTruncated;
          } else if (!known) {
            expected = ParseResult::kUnknownOpcode;
          } else if (pad > bytes - fixed) {
            expected = ParseResult::kBadPad;
          } else if (bytes > fixed && !info.has(kHasPayload)) {
            expected = ParseResult::kUnexpectedPayload;
          }
          const Parsed p(frame);
          ASSERT_EQ(p.result, expected) << "opcode " << opcode << ", " << bytes << " bytes, pad " << int{pad};
          if (p.result != ParseResult::kOk) continue;
          ASSERT_NO_FATAL_FAILURE(expect_view_inside(p));
          ASSERT_EQ(p.view.payload_bytes, bytes - fixed - pad);
          ASSERT_TRUE(icrc_matches(p.view));
          accepted++;
        }
      }
    }
  }
  EXPECT_GT(accepted, 20000u);
}

TEST(ParseFrame, AnyBytesAtAll) {
  SeededRandom random(11);
  const Bytes seeds[] = {write_only(ipv4_path()), write_only(ipv6_path()), write_only(on_vlan(ipv6_path(), 9)),
                         frame_of(ipv4_path(), Bth{.opcode = 0x04}, {}, Bytes(64, 7))};
  unsigned counts[kParseResultCount] = {};
  for (int repeat = 0; repeat < 400000; repeat++) {
    Bytes frame = seeds[random.below(4)];
    for (uint32_t changes = random.below(5); changes > 0; changes--) {
      frame[random.below(static_cast<uint32_t>(frame.size()))] = static_cast<uint8_t>(random.next_u32());
    }
    if (random.below(4) == 0) frame.resize(random.below(static_cast<uint32_t>(frame.size()) + 20));
    if (frame.size() >= 34 && frame[12] == 8 && random.below(2) == 0) fix_checksum(frame);
    const Parsed p(frame);
    counts[static_cast<unsigned>(p.result)]++;
    if (p.result == ParseResult::kOk) {
      ASSERT_NO_FATAL_FAILURE(expect_view_inside(p));
      icrc_matches(p.view);
    }
  }
  for (unsigned i = 0; i < kParseResultCount; i++) {
    EXPECT_GT(counts[i], 0u) << parse_result_name(static_cast<ParseResult>(i)) << " never came up";
  }
}

/// The longest headers of every opcode fit the private copy, and so do the UDP ports behind IPv4 options, which are
/// refused.
TEST(ParseFrame, AllHeadersFitTheirCopy) {
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    const uint32_t ext_bytes = opcode_info(static_cast<uint8_t>(opcode)).header_bytes;
    EXPECT_LE(RouteHeader::kMaxBytes + Bth::kBytes + ext_bytes, RxFrame::kHeaderBytes) << opcode;
  }
  EXPECT_LE(14u + 4 + 60 + 8, RxFrame::kHeaderBytes);
}

TEST(ParseFrame, HeadersAreReadInTheirCopyAlone) {
  for (const Route& path : {ipv4_path(), ipv6_path(), on_vlan(ipv4_path(), 3), on_vlan(ipv6_path(), 3)}) {
    for (const size_t payload_bytes : {0, 1, 5, 30, 31, 32, 200, 1024}) {
      Bytes extension;
      append(extension, Reth{0x1122334455667788, 0x99aabbcc, 5});
      append(extension, ImmDt{0x0a0b0c0d});
      const Bth bth{.opcode = 0x0b, .dest_qp = 0x123456, .psn = Psn(0xabcdef)};
      const Bytes right = frame_of(path, bth, extension, Bytes(payload_bytes, 0x5a));
      const Bytes headers(right.begin(), right.begin() + std::min<std::ptrdiff_t>(std::ssize(right), 128));
      PacketView whole;
      ASSERT_EQ(parse_frame(right, whole), ParseResult::kOk);
      EXPECT_FALSE(whole.apart());
      const auto payload_at = whole.payload - right.data();
      Bytes data = right;
      std::fill_n(data.begin(), payload_at, uint8_t{0xff});
      PacketView view;
      ASSERT_EQ(parse_frame(data, view, headers.data()), ParseResult::kOk);
      EXPECT_TRUE(view.apart());
      EXPECT_EQ(view.l2, headers.data());
      EXPECT_EQ(view.payload, data.data() + payload_at);
      EXPECT_EQ(view.payload_bytes, payload_bytes);
      EXPECT_EQ(view.reth().va, 0x1122334455667788u);
      EXPECT_EQ(view.imm().imm, 0x0a0b0c0du);
      EXPECT_EQ(view.dst_ip, path.dst_ip);
      EXPECT_TRUE(icrc_matches(view)) << payload_bytes;
      // The CRC covers every byte, from either place: the last of the headers, and all behind them.
      Bytes other_headers = headers;
      other_headers[static_cast<size_t>(payload_at) - 1] ^= 1;
      ASSERT_EQ(parse_frame(data, view, other_headers.data()), ParseResult::kOk);
      EXPECT_FALSE(icrc_matches(view));
      for (size_t at = static_cast<size_t>(payload_at); at < data.size(); at++) {
        data[at] ^= 1;
        ASSERT_EQ(parse_frame(data, view, headers.data()), ParseResult::kOk);
        ASSERT_FALSE(icrc_matches(view)) << at;
        data[at] ^= 1;
      }
    }
  }
}

}  // namespace
}  // namespace uroce
