#include "segment/peers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "support.h"

namespace uroce::segment {
namespace {

using namespace test;

struct PeersTest : ::testing::Test {
  void SetUp() override { ASSERT_TRUE(directory.open(dir.path(), error)) << error; }
  void join(Membership& member, const std::string& host, uint8_t number, uint32_t block) {
    MemberRecord record = record_of(host, number);
    record.blocks = {block};
    ASSERT_TRUE(member.join(directory, record, error)) << error;
    peers.refresh(true);
  }
  TempDir dir;
  std::string error;
  Directory directory;
  Peers peers{directory, 0, mac_of(1)};
};

TEST_F(PeersTest, AHostIsForgottenWithItsLastMember) {
  Membership first, second;
  join(first, "two", 2, 5);
  join(second, "two", 2, 6);
  EXPECT_EQ(peers.hosts(), 1u);
  first.leave();
  peers.refresh(true);
  EXPECT_EQ(peers.hosts(), 1u);
  EXPECT_EQ(peers.find(mac_of(2), 5 << kQpnBlockBits), nullptr);
  EXPECT_NE(peers.find(mac_of(2), 6 << kQpnBlockBits), nullptr);
  second.leave();
  peers.refresh(true);
  EXPECT_EQ(peers.hosts(), 0u);
  EXPECT_EQ(peers.find(mac_of(2), 6 << kQpnBlockBits), nullptr);
}

/// The directory is also read for other purposes, such as taking queue pair numbers. It has not changed since that
/// read, and yet it has a member that the peers do not know.
TEST_F(PeersTest, WhatSomebodyElseReadIsNotMissed) {
  MemberRecord record = record_of("two", 2);
  record.blocks = {5};
  Membership member;
  ASSERT_TRUE(member.join(directory, record, error)) << error;
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // longer than the resolution of file times
  directory.scan();
  ASSERT_FALSE(directory.maybe_changed());
  peers.refresh();
  EXPECT_NE(peers.find(mac_of(2), 5 << kQpnBlockBits), nullptr);
}

/// Programs that were there before an uplink may have its address; the uplink is then the one that is found.
TEST_F(PeersTest, AnAddressOfAnUplinkIsNoProgramsEvenIfItSaysSo) {
  const IpAddress ip = *parse_ip("10.0.0.7");
  Membership before, uplink, after, bridge;
  const auto add = [&](Membership& member, uint8_t number, Role role) {
    MemberRecord record = with_role(record_of("host" + std::to_string(number), number), role);
    record.addresses.push_back({ip, 24, 0});
    ASSERT_TRUE(member.join(directory, record, error)) << error;
    peers.refresh(true);
  };
  add(before, 2, Role::kProgram);
  EXPECT_EQ(peers.mac_of(ip), mac_of(2));
  add(uplink, 3, Role::kUplink);
  EXPECT_EQ(peers.mac_of(ip), mac_of(3));
  add(after, 4, Role::kProgram);
  add(bridge, 5, Role::kBridge);
  EXPECT_EQ(peers.mac_of(ip), mac_of(3));
  // Members are visited in the order of their numbers, which are random: some come before the uplink, others after it.
  std::vector<std::unique_ptr<Membership>> many(24);
  for (auto& member : many) {
    member = std::make_unique<Membership>();
    add(*member, 6, Role::kProgram);
    EXPECT_EQ(peers.mac_of(ip), mac_of(3));
  }
  uplink.leave();
  peers.refresh(true);
  EXPECT_TRUE(peers.mac_of(ip));
  EXPECT_NE(peers.mac_of(ip), mac_of(3));
}

/// A member that fills the directory with files and changes it all the time costs a bounded part of the time.
TEST(Peers, DearScansAreSeldomWhereTheyMayBe) {
  const TempDir dir;
  for (int i = 0; i < 2000; i++) std::ofstream(dir.path() + "/" + Directory::file_name('m', 0xabc000 + i)) << "x";
  std::string error;
  Directory directory;
  ASSERT_TRUE(directory.open(dir.path(), error)) << error;
  Membership own, other;
  ASSERT_TRUE(own.join(directory, record_of("host", 1), error)) << error;
  Peers eager(directory, own.id(), mac_of(1));
  Peers patient(directory, own.id(), mac_of(1), true);
  const auto scans_of = [&](Peers& peers, int looks) {
    const uint64_t before = directory.scans();
    for (int i = 0; i < looks; i++) peers.refresh(true);
    return directory.scans() - before;
  };
  EXPECT_EQ(scans_of(eager, 3), 3u) << "on a segment of many programs a newcomer is found at once";
  EXPECT_LE(scans_of(patient, 100), 2u);
  ASSERT_TRUE(other.join(directory, record_of("host", 1), error)) << error;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (patient.size() == 0 && std::chrono::steady_clock::now() < end) {
    patient.refresh();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(patient.size(), 1u) << "what was put off is done in the end";
}

}  // namespace
}  // namespace uroce::segment
