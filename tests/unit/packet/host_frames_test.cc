// ARP, neighbour discovery and ping: literal frames, and whatever a hostile host may send.
#include "packet/host_frames.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/big_endian.h"
#include "base/random.h"
#include "bytes.h"

namespace uroce {
namespace {

using test::from_hex;
using test::to_hex;
using Bytes = std::vector<uint8_t>;

const MacAddress kOurs = *parse_mac("52:54:00:00:00:01");
const MacAddress kTheirs = *parse_mac("52:54:00:00:00:02");

// As Linux sends them.
const char* const kArpRequest =
    "ffffffffffff 525400000002 0806"
    "0001 0800 06 04 0001 525400000002 0a000002 000000000000 0a000001";
const char* const kSolicitation =
    "3333ff000001 525400000002 86dd"
    "60000000 0020 3a ff fd000000000000000000000000000002 ff0200000000000000000001ff000001"
    "87 00 2d43 00000000 fd000000000000000000000000000001 01 01 525400000002";

template <typename T, typename Decode>
std::optional<T> decoded(std::span<const uint8_t> frame, Decode decode) {
  const auto link = decode_link(frame);
  return link ? decode(*link) : std::nullopt;
}

std::optional<NeighbourMessage> decode_nd(const Bytes& frame) {
  const auto icmp = decoded<Icmp>(frame, decode_icmp);
  return icmp ? decode_neighbour_message(*icmp) : std::nullopt;
}

/// An untagged frame with its ICMPv6 checksum corrected.
Bytes fixed_icmpv6(Bytes frame) {
  const size_t bytes = load_be16(frame.data() + 18);
  store_be16(frame.data() + 56, 0);
  uint32_t sum = static_cast<uint32_t>(bytes) + 58;
  for (size_t i = 22; i + 1 < 54 + bytes; i += 2) sum += load_be16(frame.data() + i);
  if (bytes % 2 != 0) sum += uint32_t{frame[54 + bytes - 1]} << 8;
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  store_be16(frame.data() + 56, static_cast<uint16_t>(~sum));
  return frame;
}

TEST(Link, Vlan) {
  const auto plain = decode_link(from_hex("525400000001 525400000002 0800 45"));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->dst_mac, kOurs);
  EXPECT_EQ(plain->src_mac, kTheirs);
  EXPECT_EQ(plain->vlan_id, 0);
  EXPECT_EQ(plain->ethertype, kEtherIpv4);
  const Bytes bytes = from_hex("525400000001 525400000002 8100 a064 0806 00");
  const auto tagged = decode_link(bytes);
  ASSERT_TRUE(tagged);
  EXPECT_EQ(tagged->vlan_id, 100);
  EXPECT_EQ(tagged->ethertype, kEtherArp);
  EXPECT_EQ(tagged->body.size(), 1u);
  EXPECT_FALSE(decode_link(std::span(bytes).first(17)));
  EXPECT_FALSE(decode_link(std::span(bytes).first(13)));
}

TEST(Arp, LiteralRequest) {
  const Bytes frame = from_hex(kArpRequest);
  const auto arp = decoded<Arp>(frame, decode_arp);
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->operation, Arp::kRequest);
  EXPECT_EQ(arp->sender_mac, kTheirs);
  EXPECT_EQ(arp->sender_ip, *parse_ip("10.0.0.2"));
  EXPECT_EQ(arp->target_ip, *parse_ip("10.0.0.1"));
  Bytes out(100, 0xee);
  const uint32_t bytes = encode_arp(out, {kBroadcastMac, kTheirs, 0}, *arp);
  EXPECT_EQ(bytes, 60u);
  EXPECT_EQ(to_hex(std::span(out).first(42)), to_hex(frame));
  EXPECT_EQ(to_hex(std::span(out).subspan(42, 18)), std::string(36, '0'));
  EXPECT_EQ(out[60], 0xee);
}

TEST(Arp, TaggedAndPadded) {
  Bytes out(60);
  const Arp arp{Arp::kReply, kOurs, *parse_ip("10.0.0.1"), kTheirs, *parse_ip("10.0.0.2")};
  EXPECT_EQ(encode_arp(out, {kTheirs, kOurs, 7}, arp), 60u);
  EXPECT_EQ(to_hex(std::span(out).first(46)),
            "525400000002525400000001"
            "81000007"
            "0806"
            "0001080006040002"
            "525400000001"
            "0a000001"
            "525400000002"
            "0a000002");
  EXPECT_EQ(encode_arp(std::span(out).first(59), {kTheirs, kOurs, 7}, arp), 0u);
}

TEST(Arp, WhatIsIgnored) {
  const Bytes good = from_hex(kArpRequest);
  const auto with = [&good](size_t at, uint8_t value) {
    Bytes frame = good;
    frame[at] = value;
    return decoded<Arp>(frame, decode_arp).has_value();
  };
  EXPECT_TRUE(with(41, 9));
  EXPECT_FALSE(with(15, 6));     // not Ethernet
  EXPECT_FALSE(with(16, 0x86));  // not IPv4
  EXPECT_FALSE(with(18, 8));     // hardware address length
  EXPECT_FALSE(with(19, 16));    // protocol address length
  EXPECT_FALSE(with(21, 0));     // operation
  EXPECT_FALSE(with(21, 3));
  EXPECT_FALSE(with(22, 0x53));  // a multicast sender MAC
  EXPECT_FALSE(with(28, 0xe0));  // a multicast sender address
  for (size_t bytes = 0; bytes < good.size(); bytes++) {
    EXPECT_FALSE(decoded<Arp>(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)), decode_arp));
  }
}

TEST(NeighbourDiscovery, LiteralSolicitation) {
  const Bytes frame = from_hex(kSolicitation);
  const auto m = decode_nd(frame);
  ASSERT_TRUE(m);
  EXPECT_FALSE(m->advertisement);
  EXPECT_EQ(m->src_ip, *parse_ip("fd00::2"));
  EXPECT_EQ(m->dst_ip, solicited_node_multicast(*parse_ip("fd00::1")));
  EXPECT_EQ(m->target, *parse_ip("fd00::1"));
  EXPECT_EQ(m->link_layer, kTheirs);
  Bytes out(200);
  const uint32_t bytes = encode_neighbour_message(out, {multicast_mac(m->dst_ip), kTheirs, 0}, *m);
  EXPECT_EQ(to_hex(std::span(out).first(bytes)), to_hex(frame));
}

TEST(NeighbourDiscovery, Advertisement) {
  NeighbourMessage m;
  m.advertisement = m.solicited = m.override_cache = true;
  m.src_ip = m.target = *parse_ip("fd00::1");
  m.dst_ip = *parse_ip("fd00::2");
  m.link_layer = kOurs;
  Bytes out(86);
  ASSERT_EQ(encode_neighbour_message(out, {kTheirs, kOurs, 0}, m), 86u);
  EXPECT_EQ(to_hex(std::span(out).subspan(54, 2)), "8800");
  EXPECT_EQ(to_hex(std::span(out).subspan(58)),
            "60000000"
            "fd000000000000000000000000000001"
            "0201525400000001");
  EXPECT_EQ(fixed_icmpv6(out), out);
  const auto back = decode_nd(out);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->advertisement && back->solicited && back->override_cache);
  EXPECT_EQ(back->link_layer, kOurs);
  EXPECT_EQ(encode_neighbour_message(std::span(out).first(85), {kTheirs, kOurs, 0}, m), 0u);
}

/// Reserved bytes are zero and checksums hold, whatever was in the buffer before.
TEST(NeighbourDiscovery, NothingOfTheBufferIsLeftInAMessage) {
  NeighbourMessage m;
  m.advertisement = true;
  m.src_ip = m.target = *parse_ip("fd00::1");
  m.dst_ip = *parse_ip("fd00::2");
  m.link_layer = kOurs;
  for (const uint16_t vlan_id : {uint16_t{0}, uint16_t{7}}) {
    Bytes clean(90), used(90, 0xee);
    const uint32_t bytes = encode_neighbour_message(clean, {kTheirs, kOurs, vlan_id}, m);
    ASSERT_EQ(bytes, vlan_id == 0 ? 86u : 90u);
    ASSERT_EQ(encode_neighbour_message(used, {kTheirs, kOurs, vlan_id}, m), bytes);
    EXPECT_EQ(to_hex(std::span(used).first(bytes)), to_hex(std::span(clean).first(bytes))) << vlan_id;
    EXPECT_TRUE(decode_nd(used)) << vlan_id;
  }
}

/// RFC 4861 does not say which of two options counts: the first one, as in Linux. Options of other kinds or lengths do
/// not.
TEST(NeighbourDiscovery, TheFirstLinkLayerAddressCounts) {
  const Bytes good = from_hex(kSolicitation);
  const auto with = [&good](const char* options) {
    Bytes frame = good;
    const Bytes more = from_hex(options);
    frame.insert(frame.end(), more.begin(), more.end());
    store_be16(frame.data() + 18, static_cast<uint16_t>(32 + more.size()));
    const auto m = decode_nd(fixed_icmpv6(frame));
    return m && m->link_layer ? to_string(*m->link_layer) : "none";
  };
  EXPECT_EQ(with(""), "52:54:00:00:00:02");
  EXPECT_EQ(with("0101 525400000003"), "52:54:00:00:00:02");
  EXPECT_EQ(with("0101 525400000003 0101 525400000004"), "52:54:00:00:00:02");
  EXPECT_EQ(with("0201 525400000003"), "52:54:00:00:00:02") << "of the target";
  EXPECT_EQ(with("0102 525400000003 0000000000000000"), "52:54:00:00:00:02") << "longer than Ethernet's";
}

TEST(NeighbourDiscovery, WhatIsIgnored) {
  const Bytes good = from_hex(kSolicitation);
  ASSERT_EQ(fixed_icmpv6(good), good);
  const auto with = [&good](size_t at, std::initializer_list<uint8_t> values) {
    Bytes frame = good;
    std::copy(values.begin(), values.end(), frame.begin() + static_cast<std::ptrdiff_t>(at));
    return decode_nd(fixed_icmpv6(frame)).has_value();
  };
  EXPECT_FALSE(with(21, {254}));      // hop limit: a router passed it on
  EXPECT_FALSE(with(54, {133}));      // a router solicitation
  EXPECT_FALSE(with(55, {1}));        // code
  EXPECT_FALSE(with(62, {0xff, 2}));  // a multicast target
  EXPECT_FALSE(with(79, {0}));        // an option of no length
  EXPECT_FALSE(with(79, {2}));        // an option longer than the message
  EXPECT_FALSE(with(80, {0x53}));     // a multicast link-layer address
  EXPECT_FALSE(with(14, {0x40}));     // version
  EXPECT_TRUE(with(78, {7}));         // an unknown option is skipped
  Bytes wrong_sum = good;
  wrong_sum[57] ^= 1;
  EXPECT_FALSE(decode_nd(wrong_sum));
  for (size_t bytes = 0; bytes < good.size(); bytes++) {
    EXPECT_FALSE(decode_nd(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)))) << bytes;
  }
}

TEST(NeighbourDiscovery, DuplicateAddressProbe) {
  NeighbourMessage m;
  m.target = *parse_ip("fd00::1");
  m.dst_ip = solicited_node_multicast(m.target);
  Bytes out(100);
  const uint32_t bytes = encode_neighbour_message(out, {multicast_mac(m.dst_ip), kTheirs, 0}, m);
  out.resize(bytes);
  EXPECT_TRUE(decode_nd(out));
  m.link_layer = kTheirs;  // must not have one
  out.resize(100);
  out.resize(encode_neighbour_message(out, {multicast_mac(m.dst_ip), kTheirs, 0}, m));
  EXPECT_FALSE(decode_nd(out));
}

TEST(Multicast, MacAddresses) {
  EXPECT_EQ(to_string(multicast_mac(*parse_ip("224.0.0.1"))), "01:00:5e:00:00:01");
  EXPECT_EQ(to_string(multicast_mac(*parse_ip("239.255.1.2"))), "01:00:5e:7f:01:02");
  EXPECT_EQ(to_string(multicast_mac(*parse_ip("ff02::1:ff00:1"))), "33:33:ff:00:00:01");
  EXPECT_EQ(multicast_mac(*parse_ip("255.255.255.255")), kBroadcastMac);
  EXPECT_EQ(to_string(solicited_node_multicast(*parse_ip("fd00::12:3456"))), "ff02::1:ff12:3456");
  EXPECT_EQ(to_string(all_nodes_multicast()), "ff02::1");
}

TEST(Echo, Ipv4LiteralRequestAndReply) {
  // ping -c 1 -s 4
  Bytes frame = from_hex(
      "525400000001 525400000002 0800"
      "45000020 1234 4000 40 01 14a7 0a000002 0a000001"
      "08 00 3336 0001 0002 61626364");
  const auto icmp = decoded<Icmp>(frame, decode_icmp);
  ASSERT_TRUE(icmp);
  EXPECT_TRUE(icmp->is_echo_request());
  Bytes out(100);
  ASSERT_EQ(encode_echo_reply(out, {kTheirs, kOurs, 0}, *icmp), 60u);
  const auto reply = decoded<Icmp>(out, decode_icmp);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->src_ip, *parse_ip("10.0.0.1"));
  EXPECT_EQ(reply->dst_ip, *parse_ip("10.0.0.2"));
  EXPECT_EQ(reply->type(), 0);
  EXPECT_EQ(to_hex(reply->message.subspan(4)), "0001000261626364");
  EXPECT_EQ(to_hex(std::span(out).subspan(34, 4)), "00003b36");
  frame[40] ^= 1;
  EXPECT_FALSE(decoded<Icmp>(frame, decode_icmp));  // checksum
}

TEST(Echo, OnlyIcmpBehindAHeaderWithoutOptions) {
  const auto taken = [](const char* version, const char* protocol_and_checksum) {
    const std::string frame = std::string("525400000001 525400000002 0800 ") + version + "000020 1234 4000 40" +
                              protocol_and_checksum + "0a000002 0a000001 08 00 3336 0001 0002 61626364";
    return decoded<Icmp>(from_hex(frame), decode_icmp).has_value();
  };
  EXPECT_TRUE(taken("45", "01 14a7"));
  EXPECT_FALSE(taken("45", "11 1497")) << "UDP, with a checksum that holds";
  EXPECT_FALSE(taken("46", "01 13a7")) << "one option, with a checksum that holds";
}

/// The one's complement sum of RFC 1071: 0xffff when the checksum in it is right.
uint32_t ones_complement(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) sum += bytes[i] << 8 | bytes[i + 1];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint32_t>(sum);
}

/// Some of the sums carry twice.
TEST(Echo, ChecksumsHoldForEveryAddress) {
  const Bytes message = from_hex("08 00 3336 0001 0002 61626364");
  Icmp request;
  request.message = message;
  request.dst_ip = *parse_ip("10.0.0.1");
  Bytes out(100);
  uint32_t wrong = 0;
  for (uint32_t low = 0; low <= 0xffff; low++) {
    request.src_ip = IpAddress::v4(0xf0000000 + low);
    ASSERT_NE(encode_echo_reply(out, {kTheirs, kOurs, 0}, request), 0u);
    wrong += ones_complement(std::span(out).subspan(14, 20)) != 0xffff;
  }
  EXPECT_EQ(wrong, 0u);
}

/// The message ends where the IP header says, which must be inside the frame.
TEST(Echo, LengthsThatLie) {
  const Bytes whole = from_hex(
      "525400000001 525400000002 0800"
      "45000020 1234 4000 40 01 14a7 0a000002 0a000001"
      "08 00 3336 0001 0002 61626364");
  for (size_t bytes = 14; bytes < whole.size(); bytes++) {
    EXPECT_FALSE(decoded<Icmp>(std::span(whole).first(bytes), decode_icmp)) << bytes;
  }
  const Bytes too_short = from_hex(
      "525400000001 525400000002 0800"
      "45000016 1234 4000 40 01 14b1 0a000002 0a000001"
      "ffff 0000 0000 0000 0000 0000");
  EXPECT_FALSE(decoded<Icmp>(too_short, decode_icmp));
  const Bytes six = from_hex(
      "525400000001 525400000002 86dd"
      "60000000 000b 3a 40 fd000000000000000000000000000002 fd000000000000000000000000000001"
      "80 00 c14f 0001 0002 616263");
  for (size_t bytes = 14; bytes < six.size(); bytes++) {
    EXPECT_FALSE(decoded<Icmp>(std::span(six).first(bytes), decode_icmp)) << bytes;
  }
}

TEST(Echo, NothingBehindTheHeaderIsAnEchoToo) {
  const Bytes four = from_hex(
      "525400000001 525400000002 0800"
      "4500001c 1234 4000 40 01 14ab 0a000002 0a000001"
      "08 00 f7fc 0001 0002");
  const Bytes six = from_hex(
      "525400000001 525400000002 86dd"
      "60000000 0008 3a 40 fd000000000000000000000000000002 fd000000000000000000000000000001"
      "80 00 85b5 0001 0002");
  for (const Bytes& frame : {four, six}) {
    const auto icmp = decoded<Icmp>(frame, decode_icmp);
    ASSERT_TRUE(icmp);
    EXPECT_TRUE(icmp->is_echo_request());
    EXPECT_EQ(icmp->message.size(), 8u);
  }
}

TEST(Echo, Ipv6) {
  const Bytes frame = from_hex(
      "525400000001 525400000002 86dd"
      "60000000 000b 3a 40 fd000000000000000000000000000002 fd000000000000000000000000000001"
      "80 00 c14f 0001 0002 616263");
  const auto icmp = decoded<Icmp>(frame, decode_icmp);
  ASSERT_TRUE(icmp);
  EXPECT_TRUE(icmp->is_echo_request());
  Bytes out(100);
  const uint32_t bytes = encode_echo_reply(out, {kTheirs, kOurs, 9}, *icmp);
  ASSERT_EQ(bytes, 14u + 4 + 40 + 11);
  const Bytes sent(out.begin(), out.begin() + bytes);
  const auto reply = decoded<Icmp>(sent, decode_icmp);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->type(), 129);
  EXPECT_EQ(reply->hop_limit, 64);
  EXPECT_EQ(to_hex(reply->message.subspan(4)), "00010002616263");
  EXPECT_EQ(encode_echo_reply(std::span(out).first(bytes - 1), {kTheirs, kOurs, 9}, *icmp), 0u);
}

TEST(HostFrames, AnyBytesAtAll) {
  SeededRandom random(12);
  const Bytes seeds[] = {from_hex(kArpRequest), from_hex(kSolicitation)};
  unsigned taken = 0;
  for (int repeat = 0; repeat < 300000; repeat++) {
    Bytes frame = seeds[random.below(2)];
    for (uint32_t changes = random.below(4); changes > 0; changes--) {
      frame[random.below(static_cast<uint32_t>(frame.size()))] = static_cast<uint8_t>(random.next_u32());
    }
    if (random.below(3) == 0) frame.resize(random.below(static_cast<uint32_t>(frame.size()) + 1));
    if (frame.size() > 58 && load_be16(frame.data() + 18) + 54u == frame.size()) frame = fixed_icmpv6(frame);
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[frame.size()]);
    std::copy(frame.begin(), frame.end(), exact.get());
    const auto link = decode_link({exact.get(), frame.size()});
    if (!link) continue;
    if (decode_arp(*link)) taken++;
    const auto icmp = decode_icmp(*link);
    if (icmp && decode_neighbour_message(*icmp)) taken++;
  }
  EXPECT_GT(taken, 1000u);
}

}  // namespace
}  // namespace uroce
