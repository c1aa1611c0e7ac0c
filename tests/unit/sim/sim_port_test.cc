// The simulated NIC: how much it takes, when it wakes its host, and that pause frames hold it back.
#include "sim/sim_port.h"
#include "engine/object_tables.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/big_endian.h"
#include "engine/bring_up.h"
#include "engine/neighbours.h"
#include "sim/world.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"

namespace uroce::sim {
namespace {

constexpr uint32_t kFrameBytes = 976;  // 8 us at 1 Gb/s with preamble, check sequence and gap

struct CountingWaker final : Waker {
  void wake() override { wakes++; }
  unsigned wakes = 0;
};

struct Sink final : FrameSink {
  void deliver(Frame&& frame) override { frames.push_back(std::move(frame)); }
  std::vector<Frame> frames;
};

class SimPortTest : public testing::Test {
 protected:
  SimPortTest() { port_.connect(events_, link_, {3, 64 * 1024, true}); }

  /// Sends up to `count` frames with that DSCP; returns for how many there was room.
  uint32_t send(uint32_t count, uint8_t dscp = 0) {
    TxFrame frames[Port::kMaxBurst];
    const uint32_t room = port_.acquire_tx(frames, count);
    for (uint32_t i = 0; i < room; i++) {
      std::fill_n(frames[i].data, kFrameBytes, uint8_t{0});
      store_be16(frames[i].data + 12, 0x0800);
      frames[i].data[14] = 0x45;
      frames[i].data[15] = static_cast<uint8_t>(dscp << 2);
      frames[i].bytes = kFrameBytes;
    }
    port_.send(frames, room);
    return room;
  }
  static Frame pause(uint8_t priority, uint16_t quanta) {
    Pause pause;
    pause.priorities = priority_bit(priority);
    pause.quanta[priority] = quanta;
    Frame frame(kPauseFrameBytes);
    encode_pause({frame.data(), frame.size()}, pause);
    return frame;
  }
  void run_for(Duration d) {
    const Instant end = events_.now() + d;
    while (events_.next() <= end) events_.step();
    events_.advance_to(end);
  }

  EventQueue events_{Instant{0}};
  SeededRandom random_{1};
  CountingWaker waker_;
  Sink sink_;
  Link link_{events_, random_, sink_, {Duration{0}, 1'000'000'000, {}}};
  SimPort port_{2048, waker_};
};

TEST_F(SimPortTest, TakesAFewFramesAndWakesTheHostWhenTheWireDrains) {
  EXPECT_EQ(send(1), 1u);  // leaves at once
  EXPECT_EQ(send(10), 3u);
  EXPECT_FALSE(port_.has_room());
  EXPECT_EQ(send(1), 0u);
  port_.wake_when_room();
  run_for(nanoseconds(7'999));
  EXPECT_EQ(waker_.wakes, 0u);
  run_for(nanoseconds(1));
  EXPECT_EQ(waker_.wakes, 1u);
  EXPECT_EQ(send(10), 1u);
  run_for(microseconds(4 * 8));
  EXPECT_EQ(sink_.frames.size(), 5u);
  EXPECT_EQ(waker_.wakes, 1u);  // each wake has to be asked for
}

TEST_F(SimPortTest, BuffersThatComeBackWakeTheHost) {
  port_.set_out_of_buffers(true);
  EXPECT_EQ(waker_.wakes, 0u);
  EXPECT_FALSE(port_.has_room());
  port_.set_out_of_buffers(false);
  EXPECT_EQ(waker_.wakes, 1u);
  EXPECT_TRUE(port_.has_room());
}

TEST_F(SimPortTest, ByteLimit) {
  SimPort port(2048, waker_);
  port.connect(events_, link_, {64, 4096, true});
  TxFrame frames[8];
  EXPECT_EQ(port.acquire_tx(frames, 8), 2u);
}

TEST_F(SimPortTest, AcksMayHaveADscpOfTheirOwn) {
  SimPort port(2048, waker_);
  NicConfig config{8, 64 * 1024, true};
  config.ack_dscp = 48;
  port.connect(events_, link_, config);
  constexpr uint8_t kOpcodes[] = {0x11, 0x0A, 0x81};  // an ACK, a WRITE, a CNP
  TxFrame frames[3];
  ASSERT_EQ(port.acquire_tx(frames, 3), 3u);
  for (size_t i = 0; i < 3; i++) {
    uint8_t* const p = frames[i].data;
    std::fill_n(p, 100, uint8_t{0});
    store_be16(p + 12, 0x0800);
    p[14] = 0x45;
    p[15] = 26 << 2;
    p[23] = 17;
    store_be16(p + 36, 4791);
    p[42] = kOpcodes[i];
    frames[i].bytes = 100;
  }
  port.send(frames, 3);
  run_for(microseconds(10));
  ASSERT_EQ(sink_.frames.size(), 3u);
  EXPECT_EQ(sink_.frames[0][15], 48 << 2);
  EXPECT_EQ(sink_.frames[1][15], 26 << 2);
  EXPECT_EQ(sink_.frames[2][15], 26 << 2);
}

TEST_F(SimPortTest, PausedPriorityWaits) {
  port_.deliver(pause(3, 1000));  // 512 us at 1 Gb/s
  EXPECT_EQ(send(1, 24), 1u);
  run_for(microseconds(511));
  EXPECT_EQ(sink_.frames.size(), 0u);
  run_for(microseconds(9));
  EXPECT_EQ(sink_.frames.size(), 1u);
  EXPECT_EQ(port_.counters().paused_ns, 512'000u);
  EXPECT_FALSE(port_.has_received());  // the engine does not see them
}

TEST_F(SimPortTest, ResumeEndsAPause) {
  port_.deliver(pause(3, 0xFFFF));
  send(1, 24);
  run_for(microseconds(50));
  port_.deliver(pause(3, 0));
  run_for(microseconds(8));
  EXPECT_EQ(sink_.frames.size(), 1u);
  EXPECT_EQ(port_.counters().pauses_received, 1u);
  EXPECT_EQ(port_.counters().resumes_received, 1u);
}

TEST_F(SimPortTest, OtherPrioritiesAreNotPaused) {
  port_.deliver(pause(3, 0xFFFF));
  send(1, 26 + 8);
  run_for(microseconds(8));
  EXPECT_EQ(sink_.frames.size(), 1u);
}

/// Four received frames at most; the neighbour is paused from three on until one is left.
NicConfig short_receive_queue() {
  NicConfig nic{3, 64 * 1024, true};
  nic.rx_frames = 4;
  nic.pfc.lossless = priority_bit(3);
  nic.pfc.bits_per_second = 1'000'000'000;
  nic.pfc.xoff_frames = 3;
  nic.pfc.xon_frames = 1;
  return nic;
}

class SimPortReceiveTest : public SimPortTest {
 protected:
  SimPortReceiveTest() { nic_.connect(events_, link_, short_receive_queue()); }
  void take(uint32_t count) {
    RxFrame frames[Port::kMaxBurst];
    EXPECT_EQ(nic_.receive(frames, count), count);
    nic_.release_rx(frames, count);
  }
  /// The quanta for priority 3 in all pause frames that have left.
  std::vector<uint16_t> pauses() {
    std::vector<uint16_t> quanta;
    for (const Frame& frame : sink_.frames) {
      const auto pause = decode_pause(frame);
      if (pause) quanta.push_back(pause->quanta[3]);
    }
    return quanta;
  }
  SimPort nic_{2048, waker_};
};

TEST_F(SimPortReceiveTest, MoreThanItHoldsIsLost) {
  for (int i = 0; i < 6; i++) nic_.deliver(Frame(kFrameBytes));
  EXPECT_EQ(nic_.rx_backlog(), 4u);
  EXPECT_EQ(nic_.counters().rx_dropped, 2u);
  take(1);
  nic_.deliver(Frame(kFrameBytes));
  EXPECT_EQ(nic_.counters().rx_dropped, 2u);
}

TEST_F(SimPortReceiveTest, PausesAtTheWatermarkRepeatsAndEndsIt) {
  for (int i = 0; i < 2; i++) nic_.deliver(Frame(kFrameBytes));
  run_for(microseconds(10));
  EXPECT_TRUE(pauses().empty());
  nic_.deliver(Frame(kFrameBytes));
  run_for(microseconds(10));
  EXPECT_EQ(pauses(), (std::vector<uint16_t>{0xFFFF}));
  run_for(microseconds(65535 * 512 / 1000 / 2));  // at 1 Gb/s a quantum is 512 ns
  EXPECT_EQ(pauses(), (std::vector<uint16_t>{0xFFFF, 0xFFFF}));
  take(1);
  run_for(microseconds(10));
  EXPECT_EQ(pauses().size(), 2u);
  take(1);
  run_for(microseconds(10));
  EXPECT_EQ(pauses(), (std::vector<uint16_t>{0xFFFF, 0xFFFF, 0}));
  run_for(milliseconds(100));
  EXPECT_EQ(pauses().size(), 3u);
  EXPECT_EQ(nic_.counters().pauses_sent, 1u);
}

TEST_F(SimPortReceiveTest, OrLeavesPausesToTheEngine) {
  SimPort plain(2048, waker_);
  plain.connect(events_, link_, {3, 64 * 1024, false});
  plain.deliver(pause(3, 0xFFFF));
  EXPECT_EQ(plain.rx_backlog(), 1u);
  EXPECT_EQ(plain.counters().pauses_received, 0u);
}

/// Two engines over small queues: the wire is never idle, and no more frames than the queue and the wire hold are
/// between an engine and the far end.
TEST(Nic, KeepsTheWireFullWithASmallQueue) {
  World world(5);
  Host& host = world.add_host(simple_config(1));
  Sink sink;
  Link wire(world.events(), world.random(), sink, {microseconds(1), 10'000'000'000, {}});
  host.port().connect(world.events(), wire, {2, 8192, true});
  // A UC QP to an address that does not answer is enough to fill a wire: an ARP reply tells its MAC.
  Engine& engine = host.engine();
  const PdId pd = engine.objects().allocate_pd();
  CompletionQueue* cq = engine.objects().create_cq(64, nullptr);
  QpInit init;
  init.type = QpType::kUc;
  init.pd = pd;
  init.send_cq = init.recv_cq = cq;
  init.cap = {16, 1, 1, 1, 0};
  Qp* qp = engine.create_qp(init, nullptr);
  QpAttributes attributes;
  attributes.av.dgid = IpAddress::v4(0x0A000002);
  attributes.av.sgid_index = 1;
  attributes.dest_qpn = 77;
  attributes.path_mtu_bytes = 1024;
  attributes.access = kRemoteWrite;
  ASSERT_EQ(bring_up(engine, *qp, attributes, QpState::kRts, world.now()), ModifyResult::kOk);
  world.run_for(microseconds(5));
  engine.neighbours().set_static(attributes.av.dgid, 0, simple_config(2).mac);

  std::vector<uint8_t> memory(1 << 20);
  const uint32_t key = engine.memory().register_region(pd, memory.data(), memory.size(), 0, kLocalWrite);
  const Sge sge{0, static_cast<uint32_t>(memory.size()), key};
  SendWr wr;
  wr.opcode = WrOpcode::kRdmaWrite;
  wr.flags = kSendSignaled;
  wr.sges = &sge;
  wr.num_sge = 1;
  ASSERT_EQ(engine.post_send(*qp, wr, world.now()), PostResult::kOk);
  sink.frames.clear();
  world.run_for(microseconds(500));
  uint64_t bits = 0;
  for (const Frame& frame : sink.frames) bits += (frame.size() + 24) * 8;
  EXPECT_GT(bits, 4'970'000u);  // of the 5,000,000 that fit, less what is on the way
  EXPECT_LE(bits, 5'000'000u);
  const uint64_t sent = engine.counters().tx_packets;
  EXPECT_LE(sent, sink.frames.size() + 2 /* queued */ + 1 /* on the wire */ + 2 /* delay */ + 2 /* ARP */);
}

}  // namespace
}  // namespace uroce::sim
