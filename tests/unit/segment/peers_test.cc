#include "segment/peers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support.h"

namespace uroce::segment {
namespace {

using namespace test;

struct PeersTest : ::testing::Test {
  void SetUp() override { ASSERT_TRUE(directory.open(dir.path(), error)) << error; }
  void join(Membership& member, const std::string& host, uint8_t number, uint32_t block) {
    MemberCard card = card_of(host, number);
    card.blocks = {block};
    ASSERT_TRUE(member.join(directory, card, error)) << error;
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

/// The directory is read for other reasons, too, to take queue pair numbers, say. Afterwards nothing has changed since
/// it was read, and still there is somebody whom the peers do not know.
TEST_F(PeersTest, WhatSomebodyElseReadIsNotMissed) {
  MemberCard card = card_of("two", 2);
  card.blocks = {5};
  Membership member;
  ASSERT_TRUE(member.join(directory, card, error)) << error;
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // past the tick of the file system's clock
  directory.scan();
  ASSERT_FALSE(directory.maybe_changed());
  peers.refresh();
  EXPECT_NE(peers.find(mac_of(2), 5 << kQpnBlockBits), nullptr);
}

}  // namespace
}  // namespace uroce::segment
