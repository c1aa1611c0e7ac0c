// Forwarding, queues, and what is dropped.
#include "fabric/switch.h"

#include "rig.h"

namespace uroce::fabric::test {
namespace {

TEST(Switch, PassesAFrameOnUnchanged) {
  Rig rig(ports(4));
  const Bytes frame = frame_bytes({.from = 0, .to = 2, .priority = 3});
  EXPECT_EQ(rig.take(2), Bytes{});
  rig.send(0, frame);
  EXPECT_EQ(rig.fabric->queue_bytes(2, 3), 1000u);
  EXPECT_EQ(rig.ready, std::vector<PortId>{2});
  EXPECT_EQ(rig.take(2), frame);
  EXPECT_EQ(rig.take(2), Bytes{});
  EXPECT_EQ(rig.fabric->counters(0).rx_frames, 1u);
  EXPECT_EQ(rig.fabric->counters(2).tx_frames, 1u);
  EXPECT_EQ(rig.fabric->counters(2).tx_priority_bytes[3], 1000u);
  EXPECT_EQ(rig.fabric->queue_bytes(2, 3), 0u);
  EXPECT_EQ(rig.fabric->buffer().shared_used(), 0u);
}

TEST(Switch, TellsOfAPortOnceUntilItRanDry) {
  Rig rig(ports(3));
  rig.send({.from = 0, .to = 1});
  rig.send({.from = 2, .to = 1});
  EXPECT_EQ(rig.ready, std::vector<PortId>{1});
  rig.take(1);
  rig.send({.from = 0, .to = 1});
  EXPECT_EQ(rig.ready, std::vector<PortId>{1});  // the port was not found empty in between
  EXPECT_EQ(rig.take_all(1), 2u);
  rig.send({.from = 0, .to = 1});
  EXPECT_EQ(rig.ready, (std::vector<PortId>{1, 1}));
}

TEST(Switch, DropsHaveNames) {
  SwitchConfig config = ports(3);
  config.flood_unknown = false;
  config.max_frame_bytes = 2000;
  config.ports[2].flood = false;
  Rig rig(config);
  rig.send(0, Bytes(13));
  EXPECT_EQ(rig.drops(0, Drop::kRunt), 1u);
  rig.send({.from = 0, .to = 1, .bytes = 2001});
  EXPECT_EQ(rig.drops(0, Drop::kTooLong), 1u);
  rig.send({.from = 0, .to = 99});
  EXPECT_EQ(rig.drops(0, Drop::kNoRoute), 1u);
  rig.send({.from = 0, .to = 0});
  EXPECT_EQ(rig.drops(0, Drop::kSamePort), 1u);
  Bytes frame = frame_bytes({});
  const Bytes lldp = uroce::test::from_hex("0180c200000e");
  std::copy(lldp.begin(), lldp.end(), frame.begin());
  rig.send(0, frame);
  EXPECT_EQ(rig.drops(0, Drop::kReservedMac), 1u);
  frame[12] = 0x88;
  frame[13] = 0x08;
  rig.send(0, frame);
  EXPECT_EQ(rig.drops(0, Drop::kMacControl), 1u);
  std::fill(frame.begin(), frame.begin() + 6, uint8_t{0xff});
  frame[12] = 0x08;
  frame[13] = 0x00;
  rig.send(2, frame);
  EXPECT_EQ(rig.drops(2, Drop::kFloodBlocked), 1u);
  EXPECT_EQ(rig.fabric->counters(0).dropped(), 6u);
  for (PortId port = 0; port < 3; port++) EXPECT_EQ(rig.take(port), Bytes{});
  for (unsigned i = 0; i < kDropCount; i++) {
    EXPECT_GT(std::string(drop_name(static_cast<Drop>(i))).size(), 3u);
    for (unsigned j = 0; j < i; j++) {
      EXPECT_STRNE(drop_name(static_cast<Drop>(i)), drop_name(static_cast<Drop>(j)));
    }
  }
}

}  // namespace
}  // namespace uroce::fabric::test
