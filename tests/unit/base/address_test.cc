#include "uroce/address.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(IpAddress, Ipv4IsStoredMapped) {
  const IpAddress ip = IpAddress::v4(0x0a000102);
  const std::array<uint8_t, 16> expected = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 1, 2};
  EXPECT_EQ(ip.bytes, expected);
  EXPECT_TRUE(ip.is_v4());
  EXPECT_EQ(ip.v4_host_order(), 0x0a000102u);
  EXPECT_EQ(parse_ip("10.0.1.2"), ip);
  EXPECT_EQ(to_string(ip), "10.0.1.2");
}

TEST(IpAddress, Ipv6) {
  const auto ip = parse_ip("fd00::1:2");
  ASSERT_TRUE(ip);
  EXPECT_FALSE(ip->is_v4());
  EXPECT_EQ(ip->bytes[0], 0xfd);
  EXPECT_EQ(ip->bytes[15], 2);
  EXPECT_EQ(to_string(*ip), "fd00::1:2");
  EXPECT_EQ(parse_ip("::ffff:10.0.1.2"), IpAddress::v4(0x0a000102));
  EXPECT_TRUE(parse_ip("::")->is_zero());
}

TEST(IpAddress, Kinds) {
  EXPECT_TRUE(parse_ip("224.0.0.1")->is_multicast());
  EXPECT_TRUE(parse_ip("239.255.255.255")->is_multicast());
  EXPECT_FALSE(parse_ip("223.255.255.255")->is_multicast());
  EXPECT_FALSE(parse_ip("240.0.0.1")->is_multicast());
  EXPECT_TRUE(parse_ip("ff02::1")->is_multicast());
  EXPECT_FALSE(parse_ip("fe80::1")->is_multicast());
  EXPECT_TRUE(parse_ip("fe80::1")->is_link_local_v6());
  EXPECT_TRUE(parse_ip("febf::1")->is_link_local_v6());
  EXPECT_FALSE(parse_ip("fec0::1")->is_link_local_v6());
  for (const char* itself : {"127.0.0.1", "127.255.255.255", "::ffff:127.0.0.2", "::1"})
    EXPECT_TRUE(parse_ip(itself)->is_loopback()) << itself;
  for (const char* other :
       {"126.255.255.255", "128.0.0.1", "10.127.0.1", "::", "::2", "::127.0.0.1", "fe80::1", "1::1"})
    EXPECT_FALSE(parse_ip(other)->is_loopback()) << other;
}

TEST(IpAddress, WhatIsNotAnAddress) {
  for (const char* text : {"", "10", "10.0.0", "10.0.0.256", "10.0.0.1.", " 10.0.0.1", "10.0.0.1 ", "fd00:::1", "fd00",
                           "12345::", "localhost", "10.0.0.1/24", "fe80::1%eth0"}) {
    EXPECT_FALSE(parse_ip(text)) << text;
  }
}

TEST(MacAddress, ParseAndPrint) {
  const auto mac = parse_mac("52:54:00:AB:cd:01");
  ASSERT_TRUE(mac);
  EXPECT_EQ(to_string(*mac), "52:54:00:ab:cd:01");
  EXPECT_EQ(mac->bytes, (std::array<uint8_t, 6>{0x52, 0x54, 0x00, 0xab, 0xcd, 0x01}));
  EXPECT_EQ(parse_mac("2:0:0:0:f:1"), parse_mac("02:00:00:00:0f:01"));
  EXPECT_FALSE(mac->is_multicast());
  EXPECT_TRUE(parse_mac("01:00:5e:00:00:01")->is_multicast());
  EXPECT_TRUE(kBroadcastMac.is_multicast());
  EXPECT_TRUE(parse_mac("00:00:00:00:00:00")->is_zero());
  for (const char* text :
       {"", "52:54:00:ab:cd", "52:54:00:ab:cd:01:02", "52:54:00:ab:cd:0g", "52-54-00-ab-cd-01", "52:54:00:ab:cd:01 ",
        "525400abcd01", " 52:54:00:ab:cd:01", "52: 4:00:ab:cd:01", "-1:54:00:ab:cd:01", "+1:54:00:ab:cd:01",
        "52:54:0x:ab:cd:01", "52:54::ab:cd:01", "52:54:00:ab:cd:", ":54:00:ab:cd:01", "52:54:00:ab:cd:012",
        "052:54:00:ab:cd:01", "52:54:00:ab:cd:01:"}) {
    EXPECT_FALSE(parse_mac(text)) << text;
  }
}

TEST(LinkLocal, IsModifiedEui64) {
  EXPECT_EQ(to_string(link_local_of(*parse_mac("52:54:00:77:00:01"))), "fe80::5054:ff:fe77:1");
  EXPECT_EQ(to_string(link_local_of(*parse_mac("00:1b:21:0a:0b:0c"))), "fe80::21b:21ff:fe0a:b0c");
}

TEST(LocalAddress, Parse) {
  const auto v4 = parse_local_address("10.0.0.1");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->prefix_bits, 24);
  EXPECT_EQ(v4->vlan_id, 0);
  const auto v6 = parse_local_address("fd00::1");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->prefix_bits, 64);
  const auto full = parse_local_address("fd00::1/96@100");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->prefix_bits, 96);
  EXPECT_EQ(full->vlan_id, 100);
  EXPECT_EQ(to_string(*full), "fd00::1/96@100");
  EXPECT_EQ(to_string(*parse_local_address("10.1.2.3/8@4094")), "10.1.2.3/8@4094");
}

TEST(LocalAddress, WhatIsMalformed) {
  for (const char* text : {"", "/24", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/24x", "fd00::1/129",
                           "10.0.0.1@", "10.0.0.1@0", "10.0.0.1@4095", "10.0.0.1@x", "10.0.0.1@1/24", "::", "224.0.0.1",
                           "ff02::1", "10.0.0.1/24/24", "10.0.0.1/ 24"}) {
    EXPECT_FALSE(parse_local_address(text)) << text;
  }
}

TEST(LocalAddress, OnLink) {
  const auto address = *parse_local_address("10.1.2.3/20");
  EXPECT_TRUE(address.on_link(*parse_ip("10.1.15.255")));
  EXPECT_TRUE(address.on_link(*parse_ip("10.1.0.0")));
  EXPECT_FALSE(address.on_link(*parse_ip("10.1.16.0")));
  EXPECT_FALSE(address.on_link(*parse_ip("fd00::1")));
  const auto v6 = *parse_local_address("fd00::1/64");
  EXPECT_TRUE(v6.on_link(*parse_ip("fd00::ffff:ffff:ffff:ffff")));
  EXPECT_FALSE(v6.on_link(*parse_ip("fd00:0:0:1::1")));
  EXPECT_TRUE(parse_local_address("10.0.0.1/0")->on_link(*parse_ip("192.168.1.1")));
  EXPECT_TRUE(parse_local_address("10.0.0.1/32")->on_link(*parse_ip("10.0.0.1")));
  EXPECT_FALSE(parse_local_address("10.0.0.1/32")->on_link(*parse_ip("10.0.0.0")));
}

TEST(MacAddress, EveryBitCounts) {
  constexpr MacAddress kSome{{0x02, 0x10, 0x20, 0x30, 0x40, 0x50}};
  static_assert(kSome == MacAddress{{0x02, 0x10, 0x20, 0x30, 0x40, 0x50}});
  static_assert(MacAddress{}.is_zero());
  static_assert(kSome.number() == 0x504030201002);
  EXPECT_EQ((MacAddress{{0x02, 0x10, 0x20, 0x30, 0x40, 0x50}}).number(), kSome.number());
  for (int bit = 0; bit < 48; bit++) {
    MacAddress other = kSome, one;
    other.bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    one.bytes[bit / 8] = static_cast<uint8_t>(1u << bit % 8);
    EXPECT_NE(other, kSome) << bit;
    EXPECT_FALSE(one.is_zero()) << bit;
    EXPECT_EQ(one.is_multicast(), bit == 0) << bit;
  }
}

}  // namespace
}  // namespace uroce
