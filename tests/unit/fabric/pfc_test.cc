// Pauses that the switch asks for and pauses that it obeys, at exact bytes and instants.
#include <gtest/gtest.h>

#include "rig.h"

namespace uroce::fabric::test {
namespace {

using uroce::test::to_hex;

/// 3 ports, priority 3 lossless, 100,000 bytes to share, a quarter of the free bytes for each, 20,000 of headroom.
SwitchConfig small_buffer() {
  SwitchConfig config = ports(3);
  config.set_lossless(1 << 3);
  for (PortConfig& port : config.ports) port.headroom_bytes = 20'000;
  config.reserved_bytes = 1'000;
  config.buffer_bytes = 100'000 + 3 * 21'000;
  config.pfc_alpha = 0.25;
  config.xon_offset_bytes = 3'000;
  return config;
}

constexpr FrameSpec kLossless{.from = 0, .to = 1, .priority = 3};

TEST(Pfc, XoffAtExactlyTheThreshold) {
  Rig rig(small_buffer());
  ASSERT_EQ(rig.fabric->buffer().shared_bytes(), 100'000u);
  rig.take(0);
  // The first frame fills the reserve. Of the shared part, u = (100,000 - u) / 4 is reached at 20,000.
  for (unsigned i = 0; i < 20; i++) rig.send(kLossless);
  EXPECT_FALSE(rig.fabric->pausing(0, 3));
  EXPECT_EQ(rig.fabric->buffer().shared_used(), 19'000u);
  rig.send(kLossless);
  EXPECT_TRUE(rig.fabric->pausing(0, 3));
  EXPECT_EQ(rig.fabric->buffer().headroom_used(0, 3), 0u);
  EXPECT_EQ(rig.ready, (std::vector<PortId>{1, 0}));  // port 0 has a pause frame to send
  for (unsigned i = 0; i < 20; i++) rig.send(kLossless);
  EXPECT_EQ(rig.fabric->buffer().headroom_used(0, 3), 20'000u);
  EXPECT_EQ(rig.fabric->counters(0).dropped(), 0u);
  rig.send(kLossless);
  EXPECT_EQ(rig.drops(0, Drop::kHeadroom), 1u);
  EXPECT_EQ(rig.fabric->queue_bytes(1, 3), 41'000u);
}

TEST(Pfc, PauseFramesByteForByte) {
  SwitchConfig config = small_buffer();
  config.ports[0].mac = {{0x52, 0x54, 0, 0, 0xaa, 0xbb}};
  Rig rig(config);
  for (unsigned i = 0; i < 21; i++) rig.send(kLossless);
  EXPECT_EQ(to_hex(rig.take(0)),
            "0180c2000001"
            "52540000aabb"
            "8808"
            "0101"
            "0008"
            "000000000000ffff0000000000000000" +
                std::string(52, '0'));
  EXPECT_EQ(rig.take(0), Bytes{});
  EXPECT_EQ(rig.fabric->counters(0).xoff_sent[3], 1u);
  EXPECT_EQ(rig.take_all(1), 21u);
  EXPECT_EQ(to_hex(rig.take(0)),
            "0180c2000001"
            "52540000aabb"
            "8808"
            "0101"
            "0008" +
                std::string(84, '0'));
  EXPECT_EQ(rig.fabric->counters(0).xon_sent[3], 1u);
  EXPECT_EQ(rig.fabric->counters(0).pause_frames_sent, 2u);
  rig.now = rig.fabric->next_event();  // may be early: nothing is to be repeated
  rig.fabric->on_time(rig.now);
  EXPECT_EQ(rig.fabric->next_event(), Instant::never());
  EXPECT_EQ(rig.take(0), Bytes{});
}

TEST(Pfc, XonBelowTheThresholdByTheOffset) {
  Rig rig(small_buffer());
  for (unsigned i = 0; i < 41; i++) rig.send(kLossless);
  // 20 frames leave the headroom, then u + 3,000 <= (100,000 - u) / 4 is reached at u = 17,000.
  for (unsigned i = 0; i < 22; i++) ASSERT_NE(rig.take(1), Bytes{});
  EXPECT_EQ(rig.fabric->buffer().headroom_used(0, 3), 0u);
  EXPECT_TRUE(rig.fabric->pausing(0, 3));
  rig.take(1);
  EXPECT_FALSE(rig.fabric->pausing(0, 3));
  EXPECT_EQ(rig.fabric->buffer().shared_used(), 17'000u);
  // Neither frame was sent yet, so none is needed.
  EXPECT_EQ(rig.take(0), Bytes{});
}

TEST(Pfc, TheThresholdFallsWithWhatOthersHold) {
  Rig rig(small_buffer());
  for (unsigned i = 0; i < 60; i++) rig.send({.from = 2, .to = 1, .priority = 0});  // lossy: alpha 1 stops it at 50,000
  EXPECT_EQ(rig.drops(2, Drop::kEgressShare), 10u);
  EXPECT_EQ(rig.fabric->buffer().shared_used(), 50'000u);
  // u = (50,000 - u) / 4 at 10,000, and one frame in the reserve.
  for (unsigned i = 0; i < 10; i++) rig.send(kLossless);
  EXPECT_FALSE(rig.fabric->pausing(0, 3));
  rig.send(kLossless);
  EXPECT_TRUE(rig.fabric->pausing(0, 3));
}

TEST(Pfc, RepeatsThePauseAtHalfOfIt) {
  SwitchConfig config = small_buffer();
  config.ports[0].bits_per_second = 10'000'000'000;
  Rig rig(config);
  for (unsigned i = 0; i < 21; i++) rig.send(kLossless);
  EXPECT_NE(rig.take(0), Bytes{});
  const Instant again = rig.now + nanoseconds(3'355'392 / 2);
  EXPECT_EQ(rig.fabric->next_event(), again);
  EXPECT_EQ(rig.take(0), Bytes{});
  rig.now = again;
  rig.ready.clear();
  rig.fabric->on_time(rig.now);
  EXPECT_EQ(rig.ready, std::vector<PortId>{0});
  EXPECT_EQ(rig.take(0).size(), 60u);
  EXPECT_EQ(rig.fabric->counters(0).xoff_sent[3], 1u);  // it is still the same pause
  EXPECT_EQ(rig.fabric->counters(0).pause_frames_sent, 2u);
  EXPECT_EQ(rig.fabric->next_event(), again + nanoseconds(3'355'392 / 2));
}

TEST(Pfc, APauseFrameDoesNotWaitForThoseThatAreHeldBack) {
  Rig rig(small_buffer());
  rig.send({.from = 1, .to = 0, .priority = 0});  // leaves by the port that has to send the pause
  EXPECT_FALSE(rig.fabric->poll_pause_frame(0, rig.now));
  for (unsigned i = 0; i < 21; i++) rig.send(kLossless);
  const FabricFrame pause = rig.fabric->poll_pause_frame(0, rig.now);
  ASSERT_TRUE(pause);
  EXPECT_TRUE(is_mac_control(pause.view()));
  rig.pool.release(pause);
  EXPECT_FALSE(rig.fabric->poll_pause_frame(0, rig.now)) << "once";
  EXPECT_EQ(rig.fabric->counters(0).pause_frames_sent, 1u);
  EXPECT_EQ(rig.fabric->counters(0).tx_frames, 1u);
  EXPECT_EQ(rig.take_all(0), 1u) << "the other one is still there";
  EXPECT_EQ(rig.fabric->counters(0).pause_frames_sent, 1u);
}

TEST(Pfc, NoHeadroomStillPauses) {
  SwitchConfig config = small_buffer();
  for (PortConfig& port : config.ports) port.headroom_bytes = 1;
  Rig rig(config);
  for (unsigned i = 0; i < 30; i++) rig.send({.from = 0, .to = 1, .priority = 3, .bytes = 1501});
  EXPECT_GT(rig.drops(0, Drop::kHeadroom), 0u);
  EXPECT_TRUE(rig.fabric->pausing(0, 3));
  rig.take_all(1);
  EXPECT_FALSE(rig.fabric->pausing(0, 3));
}

TEST(Pfc, ObeysPerPriority) {
  Rig rig(ports(3));
  rig.send({.from = 0, .to = 1, .priority = 3, .psn = 3});
  rig.send({.from = 0, .to = 1, .priority = 4, .psn = 4});
  rig.send({.from = 0, .to = 2, .priority = 3, .psn = 5});
  rig.pause(1, 1 << 3, 1000);
  EXPECT_EQ(rig.take(1), frame_bytes({.from = 0, .to = 1, .priority = 4, .psn = 4}));
  EXPECT_EQ(rig.take(1), Bytes{});
  EXPECT_EQ(rig.take(2), frame_bytes({.from = 0, .to = 2, .priority = 3, .psn = 5}));  // to another neighbour
  const Instant free = rig.now + nanoseconds(5'120);                                   // 1000 quanta at 100G
  EXPECT_EQ(rig.fabric->next_event(), free);
  rig.ready.clear();
  rig.now = free + nanoseconds(-1);
  rig.fabric->on_time(rig.now);
  EXPECT_EQ(rig.take(1), Bytes{});
  EXPECT_TRUE(rig.ready.empty());
  rig.now = free;
  rig.fabric->on_time(rig.now);
  EXPECT_EQ(rig.ready, std::vector<PortId>{1});
  EXPECT_EQ(rig.take(1), frame_bytes({.from = 0, .to = 1, .priority = 3, .psn = 3}));
  const SwitchPortCounters& counters = rig.fabric->counters(1);
  EXPECT_EQ(counters.pause_frames_received, 1u);
  EXPECT_EQ(counters.pauses_received[3], 1u);
  EXPECT_EQ(counters.pauses_received[4], 0u);
  EXPECT_EQ(counters.paused_ns[3], 5'120u);
  EXPECT_EQ(counters.paused_ns[4], 0u);
}

TEST(Pfc, AResumeLetsGoAtOnce) {
  Rig rig(ports(2));
  rig.pause(1, 0xff, 0xffff);
  rig.send({});
  EXPECT_EQ(rig.take(1), Bytes{});
  rig.ready.clear();
  rig.now = rig.now + nanoseconds(100);
  rig.pause(1, 1, 0);
  EXPECT_EQ(rig.ready, std::vector<PortId>{1});
  EXPECT_EQ(rig.take(1), frame_bytes({}));
  EXPECT_EQ(rig.fabric->paused_by_neighbour(1, rig.now), 0xfe);
  EXPECT_EQ(rig.fabric->counters(1).resumes_received[0], 1u);
}

TEST(Pfc, PauseOfEverythingAndDisobedience) {
  for (const bool obey : {true, false}) {
    SwitchConfig config = ports(2);
    config.ports[1].obey_pfc = obey;
    Rig rig(config);
    rig.send(1, uroce::test::from_hex("0180c2000001 525400000002 8808 0001 ffff"));
    rig.send({.priority = 7});
    EXPECT_EQ(rig.take(1).empty(), obey);
    EXPECT_EQ(rig.fabric->counters(1).pause_frames_received, 1u);
  }
}

TEST(Pfc, PauseFramesGoOutWhileTheirPortIsPaused) {
  Rig rig(small_buffer());
  rig.pause(0, 0xff, 0xffff);
  for (unsigned i = 0; i < 21; i++) rig.send(kLossless);
  EXPECT_EQ(rig.take(0).size(), 60u);
}

TEST(Pfc, NoMemoryForAPauseFrameIsCountedAndTriedAgain) {
  SwitchConfig config = small_buffer();
  BufferPool pool(2048, 64);
  SeededRandom random(1);
  Switch fabric(config, pool, random);
  const PortId to = 1;
  ASSERT_TRUE(fabric.add_route(host(1), {&to, 1}));
  const Instant now{1000};
  const Bytes bytes = frame_bytes(kLossless);
  std::vector<FabricFrame> hoard;
  for (unsigned i = 0; i < 64; i++) {
    const FabricFrame frame = pool.allocate(1000);
    std::copy(bytes.begin(), bytes.end(), frame.data);
    i < 21 ? fabric.on_frame(0, frame, now) : hoard.push_back(frame);
  }
  EXPECT_FALSE(fabric.poll_transmit(0, now));
  EXPECT_EQ(fabric.counters(0).pause_frames_unsent, 1u);
  EXPECT_EQ(fabric.next_event(), now + microseconds(1));
  for (const FabricFrame& frame : hoard) pool.release(frame);
  const FabricFrame pause = fabric.poll_transmit(0, now);
  EXPECT_EQ(pause.bytes, 60u);
  pool.release(pause);
  EXPECT_EQ(fabric.counters(0).xoff_sent[3], 1u);
}

TEST(Pfc, WatchdogEmptiesAStuckQueue) {
  SwitchConfig config = small_buffer();
  config.pfc_watchdog = milliseconds(2);
  config.watchdog_restore = milliseconds(10);
  Rig rig(config);
  for (unsigned i = 0; i < 30; i++) rig.send(kLossless);
  EXPECT_EQ(rig.take(0).size(), 60u);
  const Instant begin = rig.now;
  bool fired = false;
  for (; rig.now < begin + milliseconds(5); rig.now = rig.now + microseconds(50)) {  // a storm without a gap
    rig.pause(1, 1 << 3, 0xffff);
    rig.fabric->on_time(rig.now);
    rig.take_all(0);
    const bool empty = rig.fabric->queue_bytes(1, 3) == 0;
    if (!fired && empty) {
      EXPECT_EQ(rig.now.ns, (begin + milliseconds(2)).ns);
      fired = true;
    }
    if (!empty) {
      EXPECT_EQ(rig.take(1), Bytes{});
    }
  }
  EXPECT_EQ(rig.fabric->paused_ns(1, 3, rig.now), 5'000'000u) << "the storm, which goes on";
  EXPECT_TRUE(fired);
  EXPECT_EQ(rig.drops(1, Drop::kWatchdog), 30u);
  EXPECT_EQ(rig.fabric->counters(1).watchdog_fired[3], 1u);
  EXPECT_FALSE(rig.fabric->pausing(0, 3));  // the frames that it blocked are gone
  rig.send(kLossless);
  EXPECT_NE(rig.take(1), Bytes{});  // the storm's pauses are ignored
  rig.now = begin + milliseconds(13);
  rig.fabric->on_time(rig.now);
  rig.pause(1, 1 << 3, 0xffff);
  rig.send(kLossless);
  EXPECT_EQ(rig.take(1), Bytes{});  // and obeyed again after a while
}

TEST(Pfc, WatchdogLeavesAPauseThatEndsAlone) {
  SwitchConfig config = small_buffer();
  config.pfc_watchdog = milliseconds(2);
  Rig rig(config);
  rig.send(kLossless);
  for (unsigned i = 0; i < 100; i++) {
    rig.pause(1, 1 << 3, 0xffff);
    rig.now = rig.now + microseconds(400);  // longer than the pause of 335.5 us
    rig.fabric->on_time(rig.now);
  }
  EXPECT_EQ(rig.fabric->counters(1).watchdog_fired[3], 0u);
  EXPECT_NE(rig.take(1), Bytes{});
}

TEST(Pfc, APauseThatEndedUnseenHasEnded) {
  // Nothing polls between the end of one pause and the next: as far as the switch can tell, they are two pauses.
  SwitchConfig config = small_buffer();
  config.pfc_watchdog = milliseconds(2);
  Rig rig(config);
  rig.send(kLossless);
  for (unsigned i = 0; i < 10; i++) {
    rig.pause(1, 1 << 3, 0xffff);
    rig.now = rig.now + microseconds(400);
  }
  rig.pause(1, 1 << 3, 0xffff);
  rig.fabric->on_time(rig.now);
  EXPECT_EQ(rig.fabric->counters(1).watchdog_fired[3], 0u);
}

TEST(Pfc, HeadroomIsComputed) {
  SwitchConfig config = ports(1);
  PortConfig& port = config.ports[0];
  config.max_frame_bytes = 1500;
  port.bits_per_second = 100'000'000'000;
  port.cable_delay = microseconds(1);
  // (2 us of cable + 2.1 us of response) at 12.5 bytes a nanosecond, three frames with their gaps, a pause frame.
  EXPECT_EQ(headroom_of(config, port), 4'100u * 125 / 10 + 3 * 1524 + 60);
  port.headroom_bytes = 7;
  EXPECT_EQ(headroom_of(config, port), 7u);
}

TEST(SwitchConfig, WhatCannotWork) {
  EXPECT_EQ(check_config(ports(4)), "");
  EXPECT_EQ(check_config({}), "no ports");
  const auto bad = [](auto change) {
    SwitchConfig config = ports(4);
    config.set_lossless(0xff);
    change(config);
    return check_config(config);
  };
  EXPECT_EQ(bad([](SwitchConfig&) {}), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.buffer_bytes = 100'000; }).find("too small"), std::string::npos);
  EXPECT_NE(bad([](SwitchConfig& c) { c.pfc_alpha = 0; }), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.lossy_alpha = -1; }), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.pause_quanta = 0; }), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.dwrr_quantum_bytes = 0; }), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.priorities[3].ecn.pmax = 1.5; }), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.priorities[3].ecn.kmin_bytes = 1 << 30; }), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.ports[2].bits_per_second = 0; }), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.dscp_priority[63] = 8; }), "");
  EXPECT_NE(bad([](SwitchConfig& c) { c.pcp_priority[0] = 9; }), "");
}

}  // namespace
}  // namespace uroce::fabric::test
