#include "host/port_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "host/endpoint_options.h"
#include "host/segment_plan.h"
#include "segment/host_identity.h"
#include "segment/member_record.h"
#include "segment/registration.h"
#include "temporary_directory.h"

namespace uroce {
namespace {

class PlanTest : public testing::Test {
 protected:
  void TearDown() override { leave_wire_ends(); }
  bool plan(const std::string& port) {
    config_.port = port;
    plan_ = PortPlan{};
    return plan_port(config_, WireEndUse::kTake, plan_, error_);
  }
  TemporaryRuntimeDir dir_;
  EndpointConfig config_;
  PortPlan plan_;
  std::string error_;
};

TEST_F(PlanTest, NothingIsTheSegmentOfTheMachine) {
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_EQ(plan_.name, "shmlan");
  EXPECT_EQ(plan_.segment_dir, (dir_.path() / "shmlan").string());
  EXPECT_EQ(plan_.max_frame_bytes, 4224u);
  EXPECT_FALSE(plan_.identity.addresses.empty());
  const PortPlan first = plan_;
  ASSERT_TRUE(plan("shmlan")) << error_;
  EXPECT_EQ(plan_.segment_dir, first.segment_dir);
  EXPECT_EQ(plan_.identity.mac, first.identity.mac) << "all programs are one host";
  EXPECT_EQ(plan_.identity.addresses, first.identity.addresses);
}

TEST_F(PlanTest, ProgramsWithDifferentAddressesAreDifferentHosts) {
  config_.addresses = {*parse_local_address("10.1.2.3/16")};
  ASSERT_TRUE(plan("")) << error_;
  const PortPlan first = plan_;
  EXPECT_EQ(first.identity.addresses, config_.addresses);
  config_.addresses = {*parse_local_address("10.1.2.4/16")};
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_NE(plan_.host, first.host);
  EXPECT_FALSE(plan_.identity.mac == first.identity.mac);
}

/// The name of one of this machine's PCI devices, or "".
std::string any_pci_device() {
  std::error_code none;
  const std::filesystem::directory_iterator devices("/sys/bus/pci/devices", none);
  return none || devices == std::filesystem::directory_iterator() ? "" : devices->path().filename().string();
}

TEST_F(PlanTest, ACardSendsFramesOfTheMtuThatIsAskedFor) {
  const std::string device = any_pci_device();
  if (device.empty()) GTEST_SKIP() << "skipped: this machine has no PCI device";
  config_.port = device;
  ASSERT_TRUE(plan_port(config_, WireEndUse::kLook, plan_, error_)) << error_;
  EXPECT_EQ(plan_.max_frame_bytes, 4224u);
  const uint32_t headers = plan_.max_frame_bytes - plan_.options.mtu;
  config_.mtu = 1500;
  plan_ = PortPlan{};
  ASSERT_TRUE(plan_port(config_, WireEndUse::kLook, plan_, error_)) << error_;
  EXPECT_EQ(plan_.options.mtu, 1500u);
  EXPECT_EQ(plan_.max_frame_bytes, 1500u + headers);
}

TEST_F(PlanTest, MoreAddressesThanAGidTableHasAreRefused) {
  for (uint32_t i = 0; i < 256; i++) config_.addresses.push_back({IpAddress::v4(0x0a010000 + i), 16, 0});
  std::string error;
  PortPlan plan;
  EXPECT_FALSE(plan_port(config_, WireEndUse::kLook, plan, error));
  EXPECT_EQ(error, "256 addresses: a GID table has room for 255; give fewer with --addr");
  config_.addresses.pop_back();
  EXPECT_TRUE(plan_port(config_, WireEndUse::kLook, plan, error)) << error;
  EXPECT_EQ(plan.identity.addresses, config_.addresses);
}

TEST_F(PlanTest, TheSameAddressesInAnotherOrderAreTheSameHost) {
  config_.addresses = {*parse_local_address("10.1.2.3/16"), *parse_local_address("fd77::1/64@7")};
  ASSERT_TRUE(plan("")) << error_;
  const std::string host = plan_.host;
  config_.addresses = {*parse_local_address("fd77::1/64@7"), *parse_local_address("10.1.2.3/24")};
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_EQ(plan_.host, host);
  config_.addresses[0].vlan_id = 8;
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_NE(plan_.host, host) << "in another VLAN it is another address";
}

TEST_F(PlanTest, WhoSaysTheMachinesAddressIsTheMachine) {
  ASSERT_TRUE(plan("")) << error_;
  if (plan_.identity.netdev.empty()) GTEST_SKIP() << "skipped: this machine has no address";
  const PortPlan first = plan_;
  config_.addresses = {first.identity.addresses.back()};
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_EQ(plan_.host, first.host);
  EXPECT_EQ(plan_.identity.mac, first.identity.mac);
  EXPECT_EQ(plan_.identity.addresses, config_.addresses);
}

TEST_F(PlanTest, AnAddressOfAnotherHostIsRefused) {
  segment::Registration other;
  segment::MemberRecord card;
  card.host = "other";
  card.mac = segment::mac_of_host(card.host);
  card.pid = 77;
  card.program = "prog";
  card.addresses = {*parse_local_address("10.1.2.3/16")};
  ASSERT_TRUE(other.join((dir_.path() / "shmlan").string(), card, error_)) << error_;
  config_.addresses = {*parse_local_address("10.1.2.4/16"), *parse_local_address("10.1.2.3/24")};
  EXPECT_FALSE(plan(""));
  EXPECT_EQ(error_,
            "address already in use: 10.1.2.3 belongs to process 77 (prog), which is another host; programs of one "
            "host say the same --addr or --host");
  config_.host = "other";
  EXPECT_TRUE(plan("")) << error_;
}

/// The smaller of the program's limit and its uplink's; where one sets none, the other's.
TEST_F(PlanTest, BehindAnUplinkTheSmallerLimitsHold) {
  segment::Registration uplink;
  segment::MemberRecord card;
  card.role = segment::Role::kUplink;
  card.host = "port-7";
  card.mac = segment::mac_of_host(card.host);
  card.program = "uroced";
  card.addresses = {*parse_local_address("10.1.2.3/16")};
  const std::string directory = (dir_.path() / "shmlan").string();
  ASSERT_TRUE(uplink.join(directory, card, error_)) << error_;
  struct Case {
    uint32_t own_mtu, its_mtu, frame_bytes;
    uint32_t own_qps, its_qps, qps;
    uint32_t lanes;
  };
  for (const Case& c : {Case{0, 0, 4224, 0, 0, 4096, 0},
                        {0, 1500, 1518, 0, 100, 100, 7},
                        {1400, 0, 1418, 100, 0, 100, 0},
                        {9000, 1500, 1518, 200, 100, 100, 1},
                        {1400, 1500, 1418, 50, 100, 50, 2},
                        {9000, 9000, 4224, 9000, 5000, 5000, 3},
                        {1500, 1500, 1518, 0, 9000, 4096, 4}}) {
    ASSERT_TRUE(uplink.update(
        [&](segment::MemberRecord& its) {
          its.mtu = c.its_mtu;
          its.quotas.qps_max = c.its_qps;
          its.quotas.lanes_max = c.lanes;
        },
        error_));
    config_.mtu = c.own_mtu;
    config_.max_qps = c.own_qps;
    ASSERT_TRUE(plan("")) << error_;
    EXPECT_TRUE(plan_.has_uplink);
    EXPECT_EQ(plan_.host, "port-7");
    // The uplink's MTU may change, so frames have room for the program's.
    EXPECT_EQ(plan_.mtu_now, c.its_mtu);
    const uint32_t carried = c.its_mtu != 0 ? c.its_mtu + kLinkHeaderBytes : UINT32_MAX;
    EXPECT_EQ(std::min(plan_.max_frame_bytes, carried), c.frame_bytes);
    EXPECT_EQ(plan_.options.frame_bytes, plan_.max_frame_bytes);
    EXPECT_EQ(queue_pairs_of(config_, plan_, 4096), c.qps) << c.own_qps << " " << c.its_qps;
    EXPECT_EQ(plan_.lanes_max, c.lanes);
  }
}

/// As with the one that a program with --port network started: the port is not down for the next minute.
TEST_F(PlanTest, AnUplinkOfTheMachinesOwnHostThatIsGoneIsNotMissed) {
  ASSERT_TRUE(plan("")) << error_;
  const PortPlan before = plan_;
  {
    segment::Registration uplink;
    segment::MemberRecord card;
    card.role = segment::Role::kUplink;
    card.host = before.host;
    card.mac = before.identity.mac;
    card.addresses = before.identity.addresses;
    card.mtu = 1500;
    card.leads_out = true;
    ASSERT_TRUE(uplink.join(before.segment_dir, card, error_)) << error_;
    ASSERT_TRUE(plan("")) << error_;
    EXPECT_FALSE(plan_.has_uplink) << "its link is not the program's";
    EXPECT_EQ(plan_.mtu_now, 1500u);
  }
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_FALSE(plan_.has_uplink);
  EXPECT_EQ(plan_.mtu_now, 0u);
  EXPECT_EQ(plan_.host, before.host);
  EXPECT_EQ(plan_.identity.mac, before.identity.mac);
  EXPECT_TRUE(plan_.identity.link_up);
}

/// Of another network namespace, for example, whose programs meet in the same directory.
TEST_F(PlanTest, AWayOutThatAnotherHostStartedIsNotFollowed) {
  ASSERT_TRUE(plan("")) << error_;
  const PortPlan before = plan_;
  segment::Registration uplink;
  segment::MemberRecord card;
  card.role = segment::Role::kUplink;
  card.host = "u0-another";
  card.mac = segment::mac_of_host(card.host);
  card.addresses = {*parse_local_address("10.99.0.1/24")};
  card.mtu = 1500;
  card.leads_out = true;
  ASSERT_TRUE(uplink.join(before.segment_dir, card, error_)) << error_;
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_EQ(plan_.host, before.host);
  EXPECT_EQ(plan_.identity.addresses, before.identity.addresses);
  EXPECT_EQ(plan_.mtu_now, 0u);
  segment::Directory directory;
  ASSERT_TRUE(directory.open(before.segment_dir, error_) && directory.scan()) << error_;
  EXPECT_FALSE(has_way_out(directory, config_, before.host));
  EXPECT_TRUE(has_way_out(directory, config_, card.host));
}

TEST_F(PlanTest, TheNetworkIsForTheMachinesOwnHost) {
  config_.host = "other";
  EXPECT_FALSE(plan("network"));
  EXPECT_NE(error_.find("leave out --host"), std::string::npos) << error_;
  config_.host.clear();
  config_.addresses = {*parse_local_address("192.0.2.77/24")};
  EXPECT_FALSE(plan("network"));
  EXPECT_NE(error_.find("192.0.2.77/24"), std::string::npos) << error_;
  EXPECT_NE(error_.find("leave out --addr"), std::string::npos) << error_;
  config_.addresses.clear();
  EXPECT_TRUE(plan("network")) << error_;
}

/// While an uplink restarts, new programs still belong to its host; but an uplink that lives comes first.
TEST_F(PlanTest, AnUplinkThatIsGoneIsFollowedWhenNoneLives) {
  const std::string directory = (dir_.path() / "shmlan").string();
  const auto join = [&](segment::Registration& uplink, const std::string& host) {
    segment::MemberRecord card;
    card.role = segment::Role::kUplink;
    card.host = host;
    card.mac = segment::mac_of_host(host);
    card.program = "uroced";
    ASSERT_TRUE(uplink.join(directory, card, error_)) << error_;
  };
  {
    segment::Registration goes;
    join(goes, "gone");
  }
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_EQ(plan_.host, "gone");
  segment::Registration lives;
  join(lives, "lives");
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_EQ(plan_.host, "lives");
  config_.host = "gone";
  ASSERT_TRUE(plan("")) << error_;
  EXPECT_TRUE(plan_.has_uplink) << "whoever names it gets it all the same";
}

TEST_F(PlanTest, WhatASegmentDoesNotHaveIsRefused) {
  EndpointConfig& c = config_;
  c.eal_args = {"-m", "128"};
  EXPECT_FALSE(plan(""));
  EXPECT_EQ(error_,
            "port shmlan starts no EAL, so that arguments for it (--eal) change nothing: leave that out, or name "
            "another port, such as net_af_packet0,iface=eth0");
  EXPECT_TRUE(plan("net_null0")) << error_;
  c = EndpointConfig{};
  c.hugepages = Hugepages::kYes;
  EXPECT_FALSE(plan("shmlan:blue"));
  EXPECT_NE(error_.find("no hugepages"), std::string::npos) << error_;
  c = EndpointConfig{};
  c.lossless = 8;
  EXPECT_FALSE(plan("shmlan"));
  EXPECT_NE(error_.find("no pause frames"), std::string::npos) << error_;
}

TEST_F(PlanTest, APortOfASwitchIsASegmentOfItsOwn) {
  SwitchSign sign;
  ASSERT_TRUE(sign.put_up("lab", 2, "note", error_)) << error_;
  config_.lossless = 8;
  ASSERT_TRUE(plan("switch")) << error_;
  EXPECT_EQ(plan_.name, "switch:lab, port 0");
  EXPECT_EQ(plan_.segment_dir, sign.port_place(0));
  EXPECT_EQ(plan_.segment_dir, (dir_.path() / "switch-lab@port0").string());
  EXPECT_EQ(plan_.max_frame_bytes, 4224u);
  EXPECT_EQ(plan_.identity.mac, plan_.end->mac);
  EXPECT_EQ(to_string(plan_.identity.addresses.at(0)), "198.18.0.1/24");
  EXPECT_EQ(pause_speed(plan_, 100), kWirePauseSpeed) << "its pauses are those of a cable";
  config_.addresses = {*parse_local_address("10.1.2.3/16")};
  ASSERT_TRUE(plan("switch:lab")) << error_;
  EXPECT_EQ(plan_.identity.addresses, config_.addresses);
  config_.eal_args = {"-m", "128"};
  EXPECT_FALSE(plan("switch"));
  EXPECT_EQ(error_.substr(0, 28), "port switch starts no EAL, s") << error_;
}

TEST_F(PlanTest, TheCableOfACardCarriesTheLargestRoceMtu) {
  ASSERT_TRUE(plan("net_mqnic0")) << error_;
  EXPECT_EQ(plan_.max_frame_bytes, 4224u);
  EXPECT_TRUE(plan_.options.wire);
  EXPECT_FALSE(plan_.options.connects);
  ASSERT_EQ(plan_.identity.addresses.size(), 1u);
  EXPECT_EQ(to_string(plan_.identity.addresses[0]), "198.18.0.1/24");
}

/// DPDK's shared memory driver is one of many: its arguments are left to the user.
TEST_F(PlanTest, NetMemifIsAWireWhoseClientConnectsAgain) {
  for (const bool client : {false, true}) {
    const std::string port = std::string("net_memif3,role=") + (client ? "client" : "server") + ",socket=/tmp/x";
    ASSERT_TRUE(plan(port)) << error_;
    EXPECT_TRUE(plan_.options.wire);
    EXPECT_EQ(plan_.options.connects, client);
    EXPECT_EQ(plan_.devargs, port);
  }
}

TEST_F(PlanTest, AddressesOfTheUserReplaceTheDefault) {
  config_.addresses = {*parse_local_address("10.1.2.3/16")};
  ASSERT_TRUE(plan("net_mqnic0"));
  EXPECT_EQ(plan_.identity.addresses, config_.addresses);
}

TEST_F(PlanTest, TheMtuBoundsFrames) {
  config_.mtu = 1500;
  ASSERT_TRUE(plan("net_null0")) << error_;
  EXPECT_EQ(plan_.max_frame_bytes, 1518u);
}

TEST_F(PlanTest, ACardOnASharedMemoryWireHasAPlaceOfItsOwn) {
  ASSERT_TRUE(plan("net_mqnic0,card=inline,wire=shm:blue")) << error_;
  EXPECT_EQ(plan_.max_frame_bytes, 4224u);
  EXPECT_EQ(plan_.options.mtu, 4206u);
  EXPECT_TRUE(plan_.options.wire);
  EXPECT_EQ(plan_.devargs,
            "net_mqnic0,card=inline,wire=shm:blue,mac=" + to_string(take_wire_end("card-blue", error_)->mac));
  EXPECT_EQ(to_string(plan_.identity.addresses.at(0)), "198.18.0.1/24");
}

TEST_F(PlanTest, ACardHasAWireWithoutNamingIt) {
  ASSERT_TRUE(plan("net_mqnic0")) << error_;
  EXPECT_EQ(plan_.devargs.rfind("net_mqnic0,wire=shm:uroce,mac=", 0), 0u) << plan_.devargs;
}

TEST_F(PlanTest, ACardInAnotherProcessKeepsItsArguments) {
  ASSERT_TRUE(plan("net_mqnic0,card=vfio-user,socket=/run/card.sock,mac=02:00:00:00:00:07")) << error_;
  EXPECT_EQ(plan_.devargs, "net_mqnic0,card=vfio-user,socket=/run/card.sock,mac=02:00:00:00:00:07");
  EXPECT_EQ(to_string(plan_.identity.mac), "02:00:00:00:00:07");
  EXPECT_FALSE(plan_.options.wire);
}

TEST_F(PlanTest, ACardWithArgumentsThatCannotBe) {
  EXPECT_FALSE(plan("net_mqnic0,wire=shm:a/b"));
  EXPECT_NE(error_.find("wire=shm:NAME"), std::string::npos) << error_;
  EXPECT_FALSE(plan("net_mqnic0,mac=dog"));
  EXPECT_NE(error_.find("'dog' is not a MAC address"), std::string::npos) << error_;
}

TEST_F(PlanTest, AnInterfaceThatIsNotThere) {
  if (!plan("net_af_packet0,iface=uroce-nope")) {
    EXPECT_TRUE(error_.find("uroce-nope") != std::string::npos || error_.find("rights") != std::string::npos) << error_;
  } else {
    FAIL() << "planned a port on nothing";
  }
}

/// Only errors that do not depend on the machine's interfaces.
TEST_F(PlanTest, SocketsThatCannotBe) {
  EXPECT_FALSE(plan("net_udp0,iface=uroce-nope"));
  EXPECT_NE(error_.find("uroce-nope"), std::string::npos) << error_;
  EXPECT_FALSE(plan("net_udp0,addr=192.0.2.7/24"));
  EXPECT_NE(error_.find("192.0.2.7/24 is no address of this machine"), std::string::npos) << error_;
  EXPECT_FALSE(plan("net_udp0,addr=dog"));
  EXPECT_NE(error_.find("addr=dog: it takes addr=IP/PREFIX"), std::string::npos) << error_;
  EXPECT_FALSE(plan("net_udp0,iface=lo,mac=zz"));
  EXPECT_NE(error_.find("'zz' is not a MAC address"), std::string::npos) << error_;
  EXPECT_FALSE(plan("net_udp0,socket=/x"));
  EXPECT_NE(error_.find("socket=/x"), std::string::npos) << error_;
  config_.lossless = 1;
  EXPECT_FALSE(plan("net_udp0,iface=lo"));
  EXPECT_NE(error_.find("has no pause frames"), std::string::npos) << error_;
}

TEST_F(PlanTest, SocketsNeedNoRightsAndGetTheInterfacesAddresses) {
  const auto loopback = read_netdev("lo");
  if (!loopback || !loopback->up || loopback->addresses.empty()) {
    GTEST_SKIP() << "the loopback interface is down";
  }
  ASSERT_TRUE(plan("net_udp0,iface=lo")) << error_;
  EXPECT_EQ(plan_.identity.addresses, loopback->addresses);
  EXPECT_EQ(plan_.identity.netdev, "lo");
  EXPECT_FALSE(plan_.identity.mac.is_zero()) << "a tunnel has none either";
  EXPECT_EQ(plan_.options.mtu, kFullMtu);
  EXPECT_EQ(plan_.devargs.rfind("net_udp0,iface=lo,addr=" + to_string(loopback->addresses.front()), 0), 0u)
      << plan_.devargs;
  config_.mtu = 1500;
  ASSERT_TRUE(plan("net_udp0,iface=lo")) << error_;
  EXPECT_EQ(plan_.options.mtu, 1500u);
}

TEST_F(PlanTest, SocketsOnNoInterfaceHaveTheAddressesOfTheMachine) {
  std::string first;
  const auto own = addresses_of_machine(first);
  if (!own || own->empty() || own->size() > segment::kAddressesMax) {
    GTEST_SKIP() << "the machine has no addresses, or very many";
  }
  ASSERT_TRUE(plan("net_udp0,mac=02:00:00:00:00:77")) << error_;
  EXPECT_EQ(plan_.identity.addresses, *own);
  EXPECT_EQ(plan_.identity.netdev, first);
  EXPECT_EQ(to_string(plan_.identity.mac), "02:00:00:00:00:77");
  EXPECT_TRUE(plan_.of_machine);
  ASSERT_TRUE(plan("net_udp0,addr=" + to_string(own->back()))) << error_;
  EXPECT_EQ(plan_.identity.addresses, std::vector<LocalAddress>{own->back()});
  EXPECT_FALSE(plan_.of_machine);
}

TEST_F(PlanTest, APciDeviceThatIsNotThere) {
  EXPECT_FALSE(plan("ffff:ff:1f.7"));
  EXPECT_NE(error_.find("ffff:ff:1f.7"), std::string::npos);
}

TEST_F(PlanTest, IdentityIsTheSameEveryTime) {
  ASSERT_TRUE(plan("net_null0"));
  const MacAddress mac = plan_.identity.mac;
  ASSERT_TRUE(plan("net_null0"));
  EXPECT_EQ(plan_.identity.mac, mac);
  ASSERT_TRUE(plan("net_null1"));
  EXPECT_FALSE(plan_.identity.mac == mac);
}

TEST(Identity, TheGuidStaysWhenTheDeviceSaysItsAddress) {
  EndpointIdentity identity;
  identity.mac = *parse_mac("02:00:00:00:00:01");
  EXPECT_EQ(identity.guid_mac(), identity.mac);
  identity.planned_mac = identity.mac;
  identity.mac = *parse_mac("52:54:00:00:00:02");
  EXPECT_EQ(identity.guid_mac(), *parse_mac("02:00:00:00:00:01"));
}

TEST(Netdevs, AnMtuThatIsTooLittleForRoceIsSaid) {
  Netdev netdev;
  netdev.name = "eth7";
  netdev.mtu = kMtuMin;
  std::string error;
  EXPECT_TRUE(carries_roce(netdev, error)) << error;
  netdev.mtu = kMtuMin - 1;
  EXPECT_FALSE(carries_roce(netdev, error));
  EXPECT_EQ(error, "interface eth7 has an MTU of 575, too little for RoCE: ip link set eth7 mtu 576 or more");
}

}  // namespace
}  // namespace uroce
