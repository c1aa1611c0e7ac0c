// Link flow control of a port.
//
// Observed on the real RTL: "LFC (802.3x pause) works: over the watermark a pause frame with quanta ffff goes out. PFC
// is a stub: the registers and feature bits exist, nothing generates or obeys PFC."
#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

class ObservedLfc : public Rig {
 protected:
  static constexpr uint32_t kTxEnable = 1u << 24, kRxEnable = 1u << 25, kTxRequest = 1u << 28, kRxRequest = 1u << 29;

  /// 802.3x: to the MAC control multicast, type 8808, opcode 1, quanta.
  static Bytes pause_frame(uint16_t quanta) {
    Bytes frame = {0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0x08, 0x00, 0x01};
    frame.push_back(static_cast<uint8_t>(quanta >> 8));
    frame.push_back(static_cast<uint8_t>(quanta));
    frame.resize(60);
    return frame;
  }
  void send_one(unsigned index) {
    put_tx(index, plain_frame(60));
    ring(at::kTxq, index + 1);
    run();
  }
};

TEST_F(ObservedLfc, PauseFrameGoesOutOverTheWatermark) {
  bring_up();
  EXPECT_EQ(read(at::kLfc) & 0xffffff, 131072u / 2) << "default: half of the FIFO";
  write(at::kLfc, 1000 | kTxEnable);
  card->block_host(true);  // the FIFO fills
  wire().to_card.push_back(plain_frame(1000));
  run();
  EXPECT_TRUE(wire().from_card.empty()) << "at the watermark, not over it";
  wire().to_card.push_back(plain_frame(60));
  run();
  ASSERT_EQ(wire().from_card.size(), 1u);
  const Bytes& frame = wire().from_card[0];
  ASSERT_EQ(frame.size(), 60u);
  EXPECT_EQ(Bytes(frame.begin(), frame.begin() + 6), (Bytes{0x01, 0x80, 0xc2, 0x00, 0x00, 0x01}));
  EXPECT_EQ(Bytes(frame.begin() + 12, frame.begin() + 18), (Bytes{0x88, 0x08, 0x00, 0x01, 0xff, 0xff}));
  EXPECT_EQ(Bytes(frame.begin() + 18, frame.end()), Bytes(42, 0));
  EXPECT_NE(read(at::kLfc) & kTxRequest, 0u);

  // Repeated after 7fff quanta of 512 bit times at 100 Gbit/s, which are 167767 ns.
  now_ns += 167'000;
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
  now_ns += 1'000;
  run();
  EXPECT_EQ(wire().from_card.size(), 2u);

  // When the FIFO is empty, the other end is told to go on.
  for (unsigned i = 0; i < 2; ++i) put_rx(i, 2048);
  ring(at::kRxq, 2);
  card->block_host(false);
  run();
  ASSERT_EQ(wire().from_card.size(), 3u);
  EXPECT_EQ(Bytes(wire().from_card[2].begin() + 12, wire().from_card[2].begin() + 18),
            (Bytes{0x88, 0x08, 0x00, 0x01, 0x00, 0x00}));
  EXPECT_EQ(read(at::kLfc) & kTxRequest, 0u);
  EXPECT_EQ(card->report().pause_frames_sent, 3u);
}

TEST_F(ObservedLfc, NoPauseFrameUnlessEnabled) {
  bring_up();
  write(at::kLfc, 1000);
  card->block_host(true);
  wire().to_card.push_back(plain_frame(1001));
  run();
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_NE(read(at::kLfc) & kTxRequest, 0u) << "the request is there all the same";
  write(at::kLfc, 1000 | kTxEnable);
  write(at::kTxControl, 0);
  run();
  EXPECT_TRUE(wire().from_card.empty()) << "nothing leaves a port that is off";
}

TEST_F(ObservedLfc, FullFifoDropsFrames) {
  CardConfig config;
  config.rx_fifo_bytes = 4096;
  build(config);
  config.max_frame_bytes = 2048;  // which limits the FIFO ahead of it, too
  build(config);
  bring_up();
  card->block_host(true);
  for (unsigned i = 0; i < 7; ++i) wire().to_card.push_back(plain_frame(1000, static_cast<uint8_t>(i)));
  run();
  EXPECT_EQ(card->report().rx_dropped_fifo_full, 1u);
  for (unsigned i = 0; i < 7; ++i) put_rx(i, 2048);
  ring(at::kRxq, 7);
  card->block_host(false);
  run();
  EXPECT_EQ(read(at::kRxq + 0x10), 0x00060007u);
  for (unsigned i = 0; i < 6; ++i)
    EXPECT_EQ(host_bytes(rx_buffer(i), 1000), plain_frame(1000, static_cast<uint8_t>(i)));
}

TEST_F(ObservedLfc, AFrameThatTheFifoNeverTakesIsDroppedWhenItIsItsTurn) {
  CardConfig config;
  config.rx_fifo_bytes = 1024;
  build(config);
  bring_up();
  write(at::kRxControl, 0x101);  // so that the frames wait ahead of the FIFO, where there is more room
  wire().to_card.push_back(plain_frame(100, 1));
  wire().to_card.push_back(plain_frame(2000, 2));
  wire().to_card.push_back(plain_frame(100, 3));
  run();
  for (unsigned i = 0; i < 3; ++i) put_rx(i, 2048);
  ring(at::kRxq, 3);
  write(at::kRxControl, 1);
  run();
  EXPECT_EQ(card->report().rx_dropped_fifo_full, 1u);
  EXPECT_EQ(read(at::kRxq + 0x10), 0x00020003u);
  EXPECT_EQ(host_bytes(rx_buffer(0), 100), plain_frame(100, 1));
  EXPECT_EQ(host_bytes(rx_buffer(1), 100), plain_frame(100, 3));
}

// "Port's RX paused (0x101): frames are held ahead of the FIFO that the watermark watches: no pause request."
TEST_F(ObservedLfc, APausedPortAsksNobodyToPause) {
  bring_up();
  write(at::kLfc, 1000 | kTxEnable);
  write(at::kRxControl, 0x101);
  for (unsigned i = 0; i < 20; ++i) wire().to_card.push_back(plain_frame(1000, static_cast<uint8_t>(i)));
  run();
  EXPECT_TRUE(wire().from_card.empty());
  EXPECT_EQ(read(at::kLfc) & kTxRequest, 0u);
  EXPECT_EQ(card->report().rx_dropped_fifo_full, 4u) << "of 16384 bytes, which the longest frame needs";
  for (unsigned i = 0; i < 16; ++i) put_rx(i, 2048);
  ring(at::kRxq, 16);
  write(at::kRxControl, 1);
  run();
  EXPECT_EQ(read(at::kRxq + 0x10), 0x00100010u);
  for (unsigned i = 0; i < 16; ++i)
    EXPECT_EQ(host_bytes(rx_buffer(i), 1000), plain_frame(1000, static_cast<uint8_t>(i)));
}

// "LFC watermark: 18 bits kept (0303ffff)."
TEST_F(ObservedLfc, TheWatermarkHasTheBitsThatItsFifoNeeds) {
  write(at::kLfc, 0xffffffff);
  EXPECT_EQ(read(at::kLfc), 0x0303ffffu);
}

TEST_F(ObservedLfc, ReceivedPauseIsObeyedForItsTime) {
  bring_up();
  write(at::kLfc, 1000 | kRxEnable);
  wire().to_card.push_back(pause_frame(1000));  // 512000 bit times: 5120 ns at 100 Gbit/s
  run();
  EXPECT_EQ(card->report().pause_frames_received, 1u);
  EXPECT_NE(read(at::kLfc) & kRxRequest, 0u);
  EXPECT_EQ(read(at::kTxControl) & 0x03000001, 0x03000001u) << "pause request and its acknowledgement";
  send_one(0);
  EXPECT_TRUE(wire().from_card.empty());
  now_ns += 5119;
  run();
  EXPECT_TRUE(wire().from_card.empty());
  now_ns += 1;
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
  EXPECT_EQ(read(at::kLfc) & kRxRequest, 0u);
  EXPECT_EQ(card->report().rx_dropped_no_descriptor, 0u) << "a pause frame is not for the host";
}

TEST_F(ObservedLfc, QuantaZeroEndsThePause) {
  bring_up();
  write(at::kLfc, 1000 | kRxEnable);
  wire().to_card.push_back(pause_frame(0xffff));
  run();
  send_one(0);
  EXPECT_TRUE(wire().from_card.empty());
  wire().to_card.push_back(pause_frame(0));
  run();
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
}

TEST_F(ObservedLfc, QuantaAreThoseOfThePortsSpeedAndStep) {
  CardConfig config;
  config.port_bits_per_second = 10'000'000'000;
  build(config);
  bring_up();
  EXPECT_EQ(read(at::kQuantaStep), 0x01000100u);
  write(at::kQuantaStep, 0x00800100);  // half the step on RX: twice the time
  write(at::kLfc, 1000 | kRxEnable);
  wire().to_card.push_back(pause_frame(10));  // 5120 bit times: 512 ns, twice
  run();
  send_one(0);
  now_ns += 1023;
  run();
  EXPECT_TRUE(wire().from_card.empty());
  now_ns += 1;
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
}

TEST_F(ObservedLfc, WithoutLfcAPauseFrameIsAFrameLikeOthers) {
  bring_up();
  put_rx(0, 2048);
  ring(at::kRxq, 1);
  wire().to_card.push_back(pause_frame(0xffff));
  run();
  EXPECT_EQ(host_bytes(rx_buffer(0), 60), pause_frame(0xffff));
  send_one(0);
  EXPECT_EQ(wire().from_card.size(), 1u);
}

// "PFC is a stub: the registers and feature bits exist, nothing generates or obeys PFC."
TEST_F(ObservedLfc, PfcIsAStub) {
  bring_up();
  EXPECT_NE(read(0x8000c) & (1u << 12), 0u) << "interface feature bit";
  EXPECT_NE(read(0x8101c) & (1u << 1), 0u) << "port feature bit";
  for (uint32_t p = 0; p < 8; ++p) {
    write(at::kPfc + 4 * p, 0x03001234);
    EXPECT_EQ(read(at::kPfc + 4 * p), 0x03000000u) << "enables are kept, the watermark is not";
  }
  // Nothing obeys it.
  Bytes pfc = pause_frame(0);
  pfc[15] = 0x01;
  pfc[14] = 0x01;
  pfc[17] = 0xff;
  for (size_t i = 18; i < 34; ++i) pfc[i] = 0xff;
  wire().to_card.push_back(pfc);
  run();
  send_one(0);
  EXPECT_EQ(wire().from_card.size(), 1u);
  // Nothing generates it: the FIFO fills over any watermark.
  card->block_host(true);
  for (unsigned i = 0; i < 12; ++i) wire().to_card.push_back(plain_frame(9000));
  run();
  EXPECT_EQ(wire().from_card.size(), 1u);
}

}  // namespace
}  // namespace mqnic::card::test
