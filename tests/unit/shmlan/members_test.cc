// An ethdev among the members of a segment: its MAC, its addresses, and what is left of it.
#include "packet/host_frames.h"
#include "rig.h"

namespace uroce::shmlan {
namespace {

using namespace test;
using segment::Directory;
using segment::MemberRecord;
using segment::Role;
using segment::test::mac_of;
using segment::test::Node;
using segment::test::record_of;

class ShmlanMember : public ShmlanTest {
 protected:
  size_t members() const {
    Directory directory;
    std::string error;
    EXPECT_TRUE(directory.open(segment_dir(), error)) << error;
    directory.scan();
    return directory.members().size();
  }
  unsigned mailboxes() const {
    unsigned found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(segment_dir())) {
      found += entry.path().filename().string().rfind("s-", 0) == 0 ? 1 : 0;
    }
    return found;
  }
};

TEST_F(ShmlanMember, AClosedPortHasLeft) {
  for (int i = 0; i < 3; i++) {
    TestPort port("net_shmlan0", dir.path()), other("net_shmlan1", dir.path());
    ASSERT_EQ(port.code + other.code, 0);
    ASSERT_EQ(port.start(setup()), 0);
    EXPECT_EQ(members(), 2u);
    port.close();
    EXPECT_EQ(members(), 1u);
    EXPECT_EQ(mailboxes(), 1u);
  }
  EXPECT_EQ(members(), 0u);
  EXPECT_EQ(mailboxes(), 0u);
}

TEST_F(ShmlanMember, PortsOfOneProcessReachEachOther) {
  TestPort one("net_shmlan0", dir.path()), other("net_shmlan1", dir.path());
  ASSERT_EQ(one.start(setup()) + other.start(setup()), 0);
  ASSERT_NE(one.mac(), other.mac());
  Bytes frame(80, 0x5a);
  std::copy_n(other.mac().bytes.begin(), 6, frame.begin());
  ASSERT_EQ(one.send(mbuf_of(frame)), 1);
  Frames got;
  for (int i = 0; i < 1000 && got.empty(); i++) {
    usleep(100);
    one.receive();
    got = other.receive();
  }
  EXPECT_EQ(got, Frames{frame});
}

TEST_F(ShmlanMember, SegmentsOfOtherNamesAreApart) {
  TestPort one("net_shmlan0", dir.path(), "segment=left"), other("net_shmlan1", dir.path(), "segment=right");
  ASSERT_EQ(one.code + other.code, 0);
  EXPECT_TRUE(std::filesystem::is_directory(dir.path() + "/shmlan.left"));
  EXPECT_TRUE(std::filesystem::is_directory(dir.path() + "/shmlan.right"));
}

TEST_F(ShmlanMember, ItsMacFollowsFromItsNameAndIsItsOwn) {
  MacAddress first;
  {
    TestPort port("net_shmlan0", dir.path());
    first = port.mac();
    EXPECT_EQ(first.bytes[0] & 3, 2) << "locally administered, of one station";
  }
  EXPECT_EQ(TestPort("net_shmlan0", dir.path()).mac(), first);
  // Another process has a device of the same name.
  MemberRecord record = record_of("namesake", 9);
  record.role = Role::kStation;
  record.mac = first;
  const Node namesake(segment_dir(), record);
  TestPort port("net_shmlan0", dir.path());
  EXPECT_NE(port.mac(), first);
}

TEST_F(ShmlanMember, WhatAnotherHasIsRefused) {
  const Node node(segment_dir(), record_of("host", 1));
  EXPECT_NE(TestPort("net_shmlan0", dir.path(), "mac=" + to_string(mac_of(1))).code, 0);
  EXPECT_NE(TestPort("net_shmlan0", dir.path(), "addr=10.0.0.1/24").code, 0);
  EXPECT_EQ(TestPort("net_shmlan0", dir.path(), "mac=" + to_string(mac_of(2)) + ",addr=10.0.0.2/24").code, 0);
}

TEST_F(ShmlanMember, ItsAddressIsKnownWithoutAsking) {
  TestPort port("net_shmlan0", dir.path(), "addr=10.0.0.5/24");
  Node program(segment_dir(), record_of("host", 1));
  Arp question;
  question.operation = Arp::kRequest;
  question.sender_mac = mac_of(1);
  question.sender_ip = *parse_ip("10.0.0.1");
  question.target_ip = *parse_ip("10.0.0.5");
  Bytes bytes(128);
  bytes.resize(encode_arp(bytes, {kBroadcastMac, mac_of(1), 0}, question));
  program.turn();
  program.send(bytes);
  const Frames answers = program.receive();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(decode_arp(*decode_link(answers[0]))->sender_mac, port.mac());
}

}  // namespace
}  // namespace uroce::shmlan
