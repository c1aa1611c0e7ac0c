// Frames for programs that have just come, and for queue pairs that no member has.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "node.h"

namespace uroce::segment {
namespace {

using namespace test;

/// A datagram is sent only once. The peer has told its number by other means, which may be quick.
TEST(SegmentPort, WhoCameJustNowIsFoundHoweverShortAfterTheLastLook) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1)), c(dir, record_of("host", 1));
  a.turn();
  a.send(roce_frame(mac_of(1), b.qpn(), 90));
  const auto for_c = roce_frame(mac_of(1), c.qpn(), 90);
  a.turn(microseconds(10));
  a.send(for_c);
  Node d(dir, record_of("two", 2));
  const auto for_d = roce_frame(mac_of(2), d.qpn(), 90);
  a.turn(microseconds(10));
  a.send(for_d);
  settle({&a, &b, &c, &d});
  EXPECT_EQ(c.receive(), Frames{for_c});
  EXPECT_EQ(d.receive(), Frames{for_d});
  EXPECT_EQ(a.port->counters().tx_dropped_nobody, 0u);
}

/// An earlier search in vain does not delay the next one.
TEST(SegmentPort, WhoWasSoughtInVainIsFoundAsSoonAsItCame) {
  const TempDir dir;
  Node a(dir, record_of("host", 1));
  std::vector<std::unique_ptr<Node>> others;
  for (uint32_t block = 70; block < 73; block++) {
    const auto frame = roce_frame(mac_of(2), block << kQpnBlockBits | 7, 90);
    a.turn(milliseconds(10));
    a.send(frame);
    a.turn(milliseconds(10));
    a.send(roce_frame(mac_of(3), block << kQpnBlockBits | 7, 90));  // reads the directory for another member
    MemberRecord record = record_of("two", 2);
    record.blocks = {block};
    others.push_back(std::make_unique<Node>(dir, record));
    a.turn(microseconds(10));
    a.send(frame);
    settle({&a, others.back().get()});
    EXPECT_EQ(others.back()->receive(), Frames{frame});
  }
}

/// An uplink forwards what comes over the wire, and strangers choose the numbers in that.
TEST(SegmentPort, StrangersDoNotMakeAnUplinkReadTheDirectory) {
  const TempDir dir;
  MemberRecord record = record_of("host", 1);
  record.role = Role::kUplink;
  Node uplink(dir, record), program(dir, record_of("host", 1));
  uplink.turn();
  const uint64_t before = uplink.port->registration().directory().scans();
  for (uint32_t block = 1; block < 1000; block++) {
    uplink.send(roce_frame(mac_of(1), block << kQpnBlockBits, 90));
    uplink.turn(microseconds(1));
  }
  EXPECT_LE(uplink.port->registration().directory().scans() - before, 3u);
}

TEST(SegmentPort, FramesForNobodyDoNotReadTheDirectoryEachTime) {
  const TempDir dir;
  Node a(dir, record_of("host", 1)), b(dir, record_of("host", 1));
  const uint32_t nobody = (b.qpn() >> kQpnBlockBits ^ 1) << kQpnBlockBits;
  a.turn();
  const uint64_t before = a.port->registration().directory().scans();
  for (uint32_t i = 0; i < 1000; i++) {
    a.send(roce_frame(mac_of(1), nobody | i, 90));
    a.turn(microseconds(1));
  }
  EXPECT_EQ(a.port->counters().tx_dropped_nobody, 1000u);
  EXPECT_LE(a.port->registration().directory().scans() - before, 3u);
}

}  // namespace
}  // namespace uroce::segment
