// The Toeplitz hash, with the vectors that Microsoft publishes for receive side scaling.
#include "packet/rss.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

#include "base/big_endian.h"
#include "bytes.h"

namespace uroce::test {
namespace {

RssKey published_key() {
  const auto bytes = from_hex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa");
  RssKey key;
  EXPECT_EQ(bytes.size(), key.size());
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

struct Vector {
  const char* src;
  uint16_t src_port;
  const char* dst;
  uint16_t dst_port;
  uint32_t addresses;
  uint32_t with_ports;
};
constexpr Vector kVectors[] = {
    {"66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e8fc2, 0x51ccc178},
    {"199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718262a, 0xc626b0ea},
    {"24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0a5de, 0x5c2b394a},
    {"38.27.205.30", 48228, "209.142.163.6", 2217, 0x82989176, 0xafc7327f},
    {"153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d1809c5, 0x10e828a2},
    {"3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc18cd5, 0x40207d3d},
    {"3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c461c, 0xdde51bbf},
    {"3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024, 0x4b61e985, 0x02d1feef},
};

FlowKey frame_of(const Vector& vector, FlowLayer transport) {
  FlowKey key;
  const bool v6 = std::string(vector.src).find(':') != std::string::npos;
  key.layers = (v6 ? kFlowIpv6 : kFlowIpv4) | transport;
  EXPECT_EQ(inet_pton(v6 ? AF_INET6 : AF_INET, vector.src, key.src_ip), 1);
  EXPECT_EQ(inet_pton(v6 ? AF_INET6 : AF_INET, vector.dst, key.dst_ip), 1);
  store_be16(key.src_port, vector.src_port);
  store_be16(key.dst_port, vector.dst_port);
  return key;
}

TEST(Rss, PublishedVectors) {
  const RssKey key = published_key();
  constexpr uint32_t kAddresses = kRssSrcIpv4 | kRssDstIpv4 | kRssSrcIpv6 | kRssDstIpv6;
  for (const Vector& vector : kVectors) {
    for (const FlowLayer transport : {kFlowTcp, kFlowUdp}) {
      const FlowKey frame = frame_of(vector, transport);
      const uint32_t own_ports =
          transport == kFlowTcp ? kRssSrcPortTcp | kRssDstPortTcp : kRssSrcPortUdp | kRssDstPortUdp;
      EXPECT_EQ(rss_hash(key, kAddresses, frame), vector.addresses) << vector.src;
      EXPECT_EQ(rss_hash(key, kAddresses | own_ports, frame), vector.with_ports) << vector.src;
      EXPECT_EQ(rss_hash(key, kRssFields & ~own_ports, frame), vector.addresses) << "ports of the other protocol";
    }
  }
}

TEST(Rss, FieldsThatAFrameLacksDoNotCount) {
  FlowKey arp;
  EXPECT_EQ(rss_hash(published_key(), kRssFields, arp), 0u);
  const FlowKey v4 = frame_of(kVectors[0], kFlowTcp);
  EXPECT_EQ(rss_hash(published_key(), kRssSrcIpv6 | kRssDstIpv6, v4), 0u);
  EXPECT_EQ(rss_hash(published_key(), kRssDstIpv4, v4),
            toeplitz(published_key(), std::span<const uint8_t>(v4.dst_ip, 4)));
}

}  // namespace
}  // namespace uroce::test
