// What flows look at: each field of each header, and nothing where there is none.
#include "packet/flow_key.h"

#include <gtest/gtest.h>

#include <vector>

#include "bytes.h"

namespace uroce::test {
namespace {

// 10.0.0.1:1000 to 10.0.0.2:2000, TOS 0x20, TTL 63, may not be cut; UDP with four bytes.
const char* const kUdp4 =
    "020000000002 020000000001 0800"
    "45200020 00014000 3f110000 0a000001 0a000002"
    "03e8 07d0 000c 0000 01020304";
// fd00::1 port 443 to fd00::2 port 80, traffic class 0x12, flow label 0x34567, hop limit 7; TCP.
const char* const kTcp6InVlan =
    "020000000002 020000000001 8100 6064 86dd"
    "61234567 00140607 fd000000000000000000000000000001 fd000000000000000000000000000002"
    "01bb 0050 00000001 00000000 50020400 00000000";
const char* const kVxlan =
    "020000000002 020000000001 0800"
    "45000032 00000000 40110000 0a000001 0a000002"
    "c000 12b5 001e 0000 08000000 00abcd00 020000000003";

std::vector<uint8_t> bytes_of(const char* text) { return from_hex(text); }
FlowKey key_of(const char* text) { return flow_key_of(bytes_of(text)); }
template <size_t N>
std::vector<uint8_t> list(const uint8_t (&field)[N]) {
  return {field, field + N};
}
using Bytes = std::vector<uint8_t>;

TEST(FlowKey, EveryFieldOfUdpOverIpv4) {
  const FlowKey key = key_of(kUdp4);
  EXPECT_EQ(list(key.dst_mac), (Bytes{2, 0, 0, 0, 0, 2}));
  EXPECT_EQ(list(key.src_mac), (Bytes{2, 0, 0, 0, 0, 1}));
  EXPECT_EQ(list(key.ether_type), (Bytes{8, 0}));
  EXPECT_EQ(key.layers, kFlowIpv4 | kFlowUdp);
  EXPECT_EQ(key.traffic_class, 0x20);
  EXPECT_EQ(key.hop_limit, 63);
  EXPECT_EQ(key.protocol, 17);
  EXPECT_EQ(key.ip_flags, FlowKey::kIpDontFragment);
  EXPECT_EQ(list(key.src_ip), (Bytes{10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(list(key.dst_ip), (Bytes{10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(list(key.src_port), (Bytes{0x03, 0xe8}));
  EXPECT_EQ(list(key.dst_port), (Bytes{0x07, 0xd0}));
}

TEST(FlowKey, EveryFieldOfTcpOverIpv6InAVlan) {
  const FlowKey key = key_of(kTcp6InVlan);
  EXPECT_EQ(list(key.ether_type), (Bytes{0x86, 0xdd})) << "the one behind the tag";
  EXPECT_EQ(list(key.vlan_tag), (Bytes{0x60, 0x64}));
  EXPECT_EQ(key.layers, kFlowVlan | kFlowIpv6 | kFlowTcp);
  EXPECT_EQ(key.traffic_class, 0x12);
  EXPECT_EQ(list(key.flow_label), (Bytes{0, 0x03, 0x45, 0x67}));
  EXPECT_EQ(key.hop_limit, 7);
  EXPECT_EQ(key.protocol, 6);
  EXPECT_EQ(key.src_ip[0], 0xfd);
  EXPECT_EQ(key.dst_ip[15], 2);
  EXPECT_EQ(list(key.src_port), (Bytes{0x01, 0xbb}));
  EXPECT_EQ(list(key.dst_port), (Bytes{0, 80}));
}

TEST(FlowKey, TheNetworkOfVxlan) {
  const FlowKey key = key_of(kVxlan);
  EXPECT_EQ(key.layers, kFlowIpv4 | kFlowUdp | kFlowVxlan);
  EXPECT_EQ(list(key.tunnel_id), (Bytes{0, 0, 0xab, 0xcd}));
}

TEST(FlowKey, LaterFragmentsHaveNoPorts) {
  auto frame = bytes_of(kUdp4);
  frame[20] = 0x20;  // the first of several fragments
  FlowKey key = flow_key_of(frame);
  EXPECT_EQ(key.ip_flags, FlowKey::kIpMoreFragments);
  EXPECT_TRUE(key.has(kFlowUdp));
  frame[21] = 1;
  key = flow_key_of(frame);
  EXPECT_TRUE(key.has(kFlowIpv4));
  EXPECT_FALSE(key.has(kFlowUdp));
  EXPECT_EQ(list(key.dst_port), (Bytes{0, 0}));
}

TEST(FlowKey, EveryCutOfAFrameIsRead) {
  for (const char* const text : {kUdp4, kTcp6InVlan, kVxlan}) {
    const auto whole = bytes_of(text);
    uint32_t layers_seen = 0;
    for (size_t bytes = 0; bytes <= whole.size(); bytes++) {
      const auto part = std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes));
      const FlowKey key = flow_key_of(part);
      EXPECT_EQ(layers_seen & ~key.layers, 0u) << "a longer part has no fewer headers, at " << bytes;
      layers_seen = key.layers;
    }
    EXPECT_EQ(layers_seen, flow_key_of(whole).layers);
  }
}

TEST(FlowMatch, ComparesOnlyWhatItsMaskHas) {
  const FlowKey key = key_of(kUdp4);
  FlowMatch match;
  EXPECT_TRUE(match.matches(key)) << "it asks for nothing";
  match.mask.dst_port[1] = 0xF0;
  match.value.dst_port[1] = 0xD0;
  EXPECT_TRUE(match.matches(key)) << "0x07d0";
  match.value.dst_port[1] = 0xC0;
  EXPECT_FALSE(match.matches(key));
  match = {};
  match.mask.layers = match.value.layers = kFlowTcp;
  EXPECT_FALSE(match.matches(key));
  EXPECT_TRUE(match.matches(key_of(kTcp6InVlan)));
}

}  // namespace
}  // namespace uroce::test
