// Where address vectors lead, and who is asked for the way.
#include "engine/router.h"

#include "engine_parts.h"

namespace uroce::test {
namespace {

class RouterTest : public EngineParts {
 protected:
  /// Whether a MAC address is asked for now.
  bool asks() { return neighbours_.next_timeout() <= kNow; }
};

TEST_F(RouterTest, AKnownPeer) {
  const auto path = router_.route(to(kPeerIp, 0x60), 7);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->src_mac, config_.mac);
  EXPECT_EQ(path->dst_mac, kPeerMac);
  EXPECT_EQ(path->src_ip, config_.addresses[0].ip);
  EXPECT_EQ(path->dst_ip, kPeerIp);
  EXPECT_EQ(path->traffic_class, 0x60);
  EXPECT_GE(path->udp_src_port, 0xC000);
}

TEST_F(RouterTest, AnUnknownPeerHasNoMacAndIsAskedFor) {
  const auto path = router_.route(to(IpAddress::v4(0x0A000063)), 7);
  ASSERT_TRUE(path);
  EXPECT_TRUE(path->dst_mac.is_zero());
  EXPECT_FALSE(asks()) << "not by looking";
  router_.ask_for(*path, 1, kNow);
  EXPECT_TRUE(asks());
}

TEST_F(RouterTest, NobodyAsksForOurselvesNorForAGroup) {
  const auto ourselves = router_.route(to(config_.addresses[0].ip), 7);
  ASSERT_TRUE(ourselves);
  router_.ask_for(*ourselves, 1, kNow);
  const auto group = router_.route(to(*parse_ip("239.1.2.3")), 7);
  ASSERT_TRUE(group);
  EXPECT_EQ(to_string(group->dst_mac), "01:00:5e:01:02:03");
  router_.ask_for(*group, 1, kNow);
  EXPECT_FALSE(asks());
}

TEST_F(RouterTest, APathToOurselvesOpensTheLoopback) {
  ASSERT_TRUE(router_.route(to(kPeerIp), 7));
  EXPECT_FALSE(loopback_.is_open());
  const auto path = router_.route(to(config_.addresses[1].ip), 7);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->dst_mac, config_.mac);
  EXPECT_TRUE(loopback_.is_open());
}

TEST_F(RouterTest, LoopbackAddressesLeadToTheSourceItself) {
  for (const char* text : {"127.0.0.1", "127.3.2.1", "::ffff:127.0.0.1", "::1"}) {
    const IpAddress itself = *parse_ip(text);
    const auto path = router_.route(to(itself), 7);
    ASSERT_TRUE(path) << text;
    EXPECT_EQ(path->src_ip, config_.addresses[itself.is_v4() ? 0 : 1].ip) << text;
    EXPECT_EQ(path->dst_ip, path->src_ip) << text;
    EXPECT_EQ(path->dst_mac, config_.mac) << text;
    router_.ask_for(*path, 1, kNow);
  }
  EXPECT_TRUE(loopback_.is_open());
  EXPECT_FALSE(asks());
}

TEST_F(RouterTest, LoopbackAddressesLeadToTheRowThatIsAsked) {
  ASSERT_TRUE(addresses_.set(std::vector{config_.addresses[0], config_.addresses[1], {*parse_ip("10.9.0.1"), 24, 7}}));
  AddressVector av = to(*parse_ip("127.0.0.1"));
  av.sgid_index = 3;
  const auto path = router_.route(av, 7);
  ASSERT_TRUE(path);
  EXPECT_EQ(to_string(path->dst_ip), "10.9.0.1");
  EXPECT_EQ(path->vlan_id, 7);
  EXPECT_EQ(path->dst_mac, config_.mac);
  av.dgid = *parse_ip("::1");
  EXPECT_FALSE(router_.route(av, 7)) << "the row is of another family";
  av = to(*parse_ip("::1"));
  av.sgid_index = 0;
  EXPECT_EQ(router_.route(av, 7)->dst_ip, link_local_of(config_.mac));
}

TEST_F(RouterTest, WhereNoWayLeads) {
  AddressVector no_such_row = to(kPeerIp);
  no_such_row.sgid_index = 9;
  EXPECT_FALSE(router_.route(no_such_row, 7));
  AddressVector other_family = to(kPeerIp);
  other_family.sgid_index = 2;
  EXPECT_FALSE(router_.route(other_family, 7));
  EXPECT_FALSE(router_.route(to(IpAddress{}), 7));
  ASSERT_TRUE(addresses_.set(std::vector{config_.addresses[1]}));
  EXPECT_FALSE(router_.route(to(kPeerIp), 7)) << "the row is a hole";
}

TEST_F(RouterTest, ALidIsAnAddressOfOurNetwork) {
  AddressVector av;
  av.is_global = false;
  EXPECT_FALSE(router_.route(av, 7)) << "LID 0";
  av.dlid = 0x0163;
  const auto path = router_.route(av, 7);
  ASSERT_TRUE(path);
  EXPECT_EQ(to_string(path->dst_ip), "10.0.1.99");
}

TEST_F(RouterTest, FlowsHavePortsOfTheirOwnAndAFlowLabelNamesOne) {
  AddressVector av = to(kPeerIp);
  EXPECT_NE(router_.route(av, 1)->udp_src_port, router_.route(av, 2)->udp_src_port);
  av.flow_label = 5;
  EXPECT_EQ(router_.route(av, 1)->udp_src_port, router_.route(av, 2)->udp_src_port);
}

}  // namespace
}  // namespace uroce::test
