// Frames and datagrams, byte by byte. The frames were made, with their iCRCs, by a script with Python's zlib.
#include "pmd/udp/datagram.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "packet/icrc.h"
#include "packet/packet.h"

namespace uroce::udp {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes from_hex(const std::string& text) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

const MacAddress kOwn = *parse_mac("5e:04:0a:4d:00:02");
const IpAddress kSrc = *parse_ip("10.77.0.1");
const IpAddress kDst = *parse_ip("10.77.0.2");
const IpAddress kSrc6 = *parse_ip("fd77::1");
const IpAddress kDst6 = *parse_ip("fd77::2");

constexpr const char* kEthernet4 = "5e040a4d00025e040a4d00010800";
constexpr const char* kEthernet6 = "5e061539e37b5e068c30b2c186dd";
constexpr const char* kTransport = "12b7002800000400ffff0000123480abcdef526f4345206f766572205544502e2e21";

// Identification 0 and source port 0xC123; 5 and 0xD456; 0xBEEF.
const std::string kPlain = std::string("4502003c00004000401126130a4d00010a4d0002c123") + kTransport + "bdb0bc86";
const std::string kFifth = std::string("4502003c000540004011260e0a4d00010a4d0002d456") + kTransport + "64f068ed";
const std::string kBeef = std::string("4502003cbeef4000401167230a4d00010a4d0002c123") + kTransport + "4b903b08";
constexpr const char* kMayBeCut = "c9790e3e";  // the iCRC of the first one without DF
const std::string kPlain6 =
    std::string("6020000000281140fd770000000000000000000000000001fd770000000000000000000000000002c123") + kTransport +
    "ed79a93e";
const std::string kOther6 =
    std::string("6020000000281140fd770000000000000000000000000001fd770000000000000000000000000002d456") + kTransport +
    "69085a01";

Bytes frame4(const std::string& rest) { return from_hex(kEthernet4 + rest); }
Bytes frame6(const std::string& rest) { return from_hex(kEthernet6 + rest); }

InDatagram datagram_of(const Bytes& frame, bool ipv6, uint16_t port) {
  const uint32_t headers = ipv6 ? 62 : 42;
  return {frame.data() + headers,
          static_cast<uint32_t>(frame.size() - headers),
          ipv6 ? kSrc6 : kSrc,
          ipv6 ? kDst6 : kDst,
          port,
          2,
          64};
}

TEST(UdpDatagram, AFrameIsRead) {
  Bytes bytes = frame4(kPlain);
  OutFrame frame;
  ASSERT_TRUE(read_frame(bytes, frame));
  EXPECT_FALSE(frame.ipv6);
  EXPECT_EQ(frame.src, kSrc);
  EXPECT_EQ(frame.dst, kDst);
  EXPECT_EQ(frame.src_port, 0xC123);
  EXPECT_EQ(frame.traffic_class, 2);
  EXPECT_EQ(frame.hop_limit, 64);
  EXPECT_EQ(frame.payload, bytes.data() + 42);
  EXPECT_EQ(frame.payload_bytes, 32u);
}

TEST(UdpDatagram, AFrameOfIpv6IsRead) {
  Bytes bytes = frame6(kPlain6);
  OutFrame frame;
  ASSERT_TRUE(read_frame(bytes, frame));
  EXPECT_TRUE(frame.ipv6);
  EXPECT_EQ(frame.src, kSrc6);
  EXPECT_EQ(frame.dst, kDst6);
  EXPECT_EQ(frame.traffic_class, 2);
  EXPECT_EQ(frame.payload, bytes.data() + 62);
}

TEST(UdpDatagram, PaddingOfEthernetIsNoPayload) {
  Bytes bytes = frame4(kPlain);
  bytes.resize(bytes.size() + 7);
  OutFrame frame;
  ASSERT_TRUE(read_frame(bytes, frame));
  EXPECT_EQ(frame.payload_bytes, 32u);
}

TEST(UdpDatagram, WhatIsNoRocePacketIsNotRead) {
  OutFrame frame;
  const Bytes good = frame4(kPlain);
  for (size_t bytes = 0; bytes < good.size(); bytes++) {
    Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_FALSE(read_frame(cut, frame)) << bytes;
  }
  const struct {
    size_t at;
    uint8_t value;
  } wrong[] = {{12, 0x81}, {14, 0x46}, {17, 0x10}, {20, 0x60}, {23, 6}, {30, 224}, {37, 0xb8}, {39, 0x29}};
  for (const auto& one : wrong) {
    Bytes bytes = good;
    bytes[one.at] = one.value;
    EXPECT_FALSE(read_frame(bytes, frame)) << one.at;
  }
  const Bytes good6 = frame6(kPlain6);
  for (size_t bytes = 0; bytes < good6.size(); bytes++) {
    Bytes cut(good6.begin(), good6.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_FALSE(read_frame(cut, frame)) << bytes;
  }
}

TEST(UdpDatagram, IdentificationAndPortAreSetAndTheIcrcFollows) {
  Bytes bytes = frame4(kPlain);
  OutFrame frame;
  ASSERT_TRUE(read_frame(bytes, frame));
  set_sent_fields(frame, 5, 0xD456);
  EXPECT_EQ(bytes, frame4(kFifth));
  set_sent_fields(frame, 5, 0xD456);
  EXPECT_EQ(bytes, frame4(kFifth)) << "the same again";
  set_sent_fields(frame, 0xBEEF, 0xC123);
  EXPECT_EQ(bytes, frame4(kBeef));
  set_sent_fields(frame, 0, 0xC123);
  EXPECT_EQ(bytes, frame4(kPlain));
}

TEST(UdpDatagram, Ipv6HasAPortOnly) {
  Bytes bytes = frame6(kPlain6);
  OutFrame frame;
  ASSERT_TRUE(read_frame(bytes, frame));
  set_sent_fields(frame, 5, 0xD456);
  EXPECT_EQ(bytes, frame6(kOther6));
}

/// The kernel does not send it without DF.
TEST(UdpDatagram, APacketThatMayBeCutIsSentAsOneThatMayNot) {
  Bytes bytes = frame4("4502003c00000000401166130a4d00010a4d0002c123" + std::string(kTransport) + kMayBeCut);
  PacketView packet;
  ASSERT_EQ(parse_frame(bytes, packet), ParseResult::kOk);
  ASSERT_TRUE(icrc_matches(packet));
  OutFrame frame;
  ASSERT_TRUE(read_frame(bytes, frame));
  set_sent_fields(frame, 0, 0xC123);
  EXPECT_EQ(bytes, frame4(kPlain));
}

/// A packet that was damaged before does not become valid.
TEST(UdpDatagram, AWrongIcrcStaysWrong) {
  Bytes bytes = frame4(kPlain);
  bytes[60] ^= 1;
  OutFrame frame;
  ASSERT_TRUE(read_frame(bytes, frame));
  set_sent_fields(frame, 5, 0xD456);
  PacketView packet;
  ASSERT_EQ(parse_frame(bytes, packet), ParseResult::kOk);
  EXPECT_FALSE(icrc_matches(packet));
}

TEST(UdpDatagram, TheFrameOfADatagramIsMadeAgain) {
  const struct {
    Bytes frame;
    bool ipv6;
    uint16_t port;
    Identified how;
  } all[] = {{frame4(kPlain), false, 0xC123, Identified::kCounted},
             {frame4(kFifth), false, 0xD456, Identified::kCounted},
             {frame4(kBeef), false, 0xC123, Identified::kForeign},
             {frame6(kPlain6), true, 0xC123, Identified::kExact},
             {frame6(kOther6), true, 0xD456, Identified::kExact}};
  for (const auto& one : all) {
    const InDatagram datagram = datagram_of(one.frame, one.ipv6, one.port);
    Bytes out(frame_header_bytes(datagram.dst) + datagram.payload_bytes);
    Bytes expected = one.frame;
    const MacAddress own = mac_of(datagram.dst);
    EXPECT_EQ(write_frame(out.data(), own, datagram), one.how);
    EXPECT_EQ(out, expected);
  }
}

TEST(UdpDatagram, DamageIsLeftToWhoeverLooks) {
  for (const bool ipv6 : {false, true}) {
    Bytes frame = ipv6 ? frame6(kPlain6) : frame4(kPlain);
    frame[frame.size() - 9] ^= 0x10;
    const InDatagram datagram = datagram_of(frame, ipv6, 0xC123);
    Bytes out(frame.size());
    EXPECT_EQ(write_frame(out.data(), mac_of(datagram.dst), datagram), Identified::kNone);
    EXPECT_EQ(out, frame);
    PacketView packet;
    ASSERT_EQ(parse_frame(out, packet), ParseResult::kOk);
    EXPECT_FALSE(icrc_matches(packet));
  }
}

/// Any program may send anything to a UDP port.
TEST(UdpDatagram, ShortOnesBecomeFramesToo) {
  const Bytes whole = frame4(kPlain);
  for (uint32_t bytes = 0; bytes < 16; bytes++) {
    InDatagram datagram = datagram_of(whole, false, 7);
    const Bytes exact(datagram.payload, datagram.payload + bytes);  // so that a sanitizer sees a read beyond
    datagram.payload = exact.data();
    datagram.payload_bytes = bytes;
    Bytes out(42 + bytes);
    EXPECT_EQ(write_frame(out.data(), kOwn, datagram), Identified::kNone) << bytes;
    PacketView packet;
    EXPECT_EQ(parse_frame(out, packet), ParseResult::kTruncated) << bytes;
  }
}

TEST(UdpDatagram, AStandInMacFollowsFromTheAddress) {
  EXPECT_EQ(to_string(mac_of(kDst)), "5e:04:0a:4d:00:02");
  EXPECT_EQ(to_string(mac_of(kDst6)), "5e:06:15:39:e3:7b");
  EXPECT_FALSE(mac_of(*parse_ip("255.255.255.255")).is_multicast());
}

}  // namespace
}  // namespace uroce::udp
