// Raw packets on a segment: programs with flows get copies of what is not RoCE.
#include <gtest/gtest.h>

#include "node.h"

namespace uroce::segment {
namespace {

using namespace test;

constexpr MacAddress kNamed{{0x02, 0x77, 0, 0, 0, 1}};
constexpr MacAddress kBroadcast{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};

std::vector<uint8_t> plain_frame(const MacAddress& dst, size_t bytes = 200) {
  std::vector<uint8_t> frame(bytes, 0x33);
  std::copy(dst.bytes.begin(), dst.bytes.end(), frame.begin());
  frame[12] = 0x88;
  frame[13] = 0xB5;
  return frame;
}

void want_raw(Node& node, const std::vector<MacAddress>& macs, bool all = false) {
  std::string error;
  EXPECT_TRUE(node.port->registration().want_raw(macs, all, error)) << error;
}

TEST(RawPackets, ReachTheProgramsThatNameTheAddress) {
  const TempDir dir;
  Node sender(dir, record_of("host", 1)), named(dir, record_of("host", 1)), all(dir, record_of("other", 2));
  Node idle(dir, record_of("host", 1));
  want_raw(named, {kNamed});
  want_raw(all, {}, true);
  const auto short_one = plain_frame(kNamed), long_one = plain_frame(kNamed, 1500), elsewhere = plain_frame(kFarAway);
  sender.turn();
  for (const auto& frame : {short_one, long_one, elsewhere}) EXPECT_TRUE(sender.send(frame));
  settle({&sender, &named, &all, &idle});
  EXPECT_EQ(named.receive(), (Frames{short_one, long_one}));
  EXPECT_EQ(all.receive(), (Frames{short_one, long_one, elsewhere}));
  EXPECT_TRUE(idle.receive().empty());
  want_raw(named, {});
  sender.turn();
  sender.send(short_one);
  settle({&sender, &named, &all});
  EXPECT_TRUE(named.receive().empty());
  EXPECT_EQ(all.receive(), Frames{short_one});
}

TEST(RawPackets, BroadcastsReachThoseThatTakeAllAndStations) {
  const TempDir dir;
  Node sender(dir, record_of("host", 1)), all(dir, record_of("host", 1)), named(dir, record_of("host", 1));
  Node station(dir, with_role(record_of("app", 2), Role::kStation));
  want_raw(all, {}, true);
  want_raw(named, {kNamed});
  const auto frame = plain_frame(kBroadcast);
  sender.turn();
  sender.send(frame);
  settle({&sender, &all, &named, &station});
  EXPECT_EQ(all.receive(), Frames{frame});
  EXPECT_EQ(station.receive(), Frames{frame});
  EXPECT_TRUE(named.receive().empty());
}

/// A program for which a frame is anyway gets it once, whatever else it has named.
TEST(RawPackets, WhoGetsAFrameAnywayGetsItOnce) {
  const TempDir dir;
  Node sender(dir, record_of("other", 2)), all(dir, record_of("host", 1)), named(dir, record_of("third", 3));
  want_raw(all, {mac_of(1), kNamed}, true);
  want_raw(named, {mac_of(1)});
  const auto frame = plain_frame(mac_of(1));
  sender.turn();
  for (int i = 0; i < 3; i++) EXPECT_TRUE(sender.send(frame));
  settle({&sender, &all, &named});
  EXPECT_EQ(all.receive(), Frames(3, frame));
  EXPECT_EQ(named.receive(), Frames(3, frame));
}

TEST(RawPackets, NobodySeesWhatIsRoce) {
  const TempDir dir;
  Node sender(dir, record_of("host", 1)), peer(dir, record_of("host", 1)), all(dir, record_of("host", 1));
  want_raw(all, {}, true);
  const auto frame = roce_frame(mac_of(1), peer.qpn(), 300);
  sender.turn();
  sender.send(frame);
  settle({&sender, &peer, &all});
  EXPECT_EQ(peer.receive(), Frames{frame});
  EXPECT_TRUE(all.receive().empty());
}

TEST(RawPackets, AFullReceiverIsSaidToBeCongested) {
  const TempDir dir;
  Node sender(dir, record_of("host", 1)), all(dir, record_of("host", 1));
  want_raw(all, {}, true);
  sender.turn();
  sender.send(plain_frame(kNamed));
  settle({&sender, &all});
  EXPECT_FALSE(sender.port->congested(MacAddress{}, 0));
  for (int i = 0; i < 256; i++) sender.send(plain_frame(kNamed));
  EXPECT_TRUE(sender.port->congested(MacAddress{}, 0));
  for (size_t got = 0; got < 257;) {
    const size_t more = all.receive().size();
    ASSERT_NE(more, 0u) << got;
    got += more;
    sender.turn();
  }
  EXPECT_FALSE(sender.port->congested(MacAddress{}, 0));
  EXPECT_EQ(sender.port->counters().tx_dropped_full, 0u);
}

TEST(RawPackets, TheRecordSaysWhatIsWanted) {
  MemberRecord record = record_of("host", 1);
  record.raw.macs = {kNamed, kBroadcast};
  record.raw.all = true;
  EXPECT_EQ(parse_record(to_text(record)), record);
  std::string text = to_text(record);
  text.replace(text.find("raw all"), 7, "raw any");
  EXPECT_FALSE(parse_record(text).has_value());
}

}  // namespace
}  // namespace uroce::segment
