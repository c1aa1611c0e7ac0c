// A port behind a bad cable, in virtual time, with frames whose bytes are looked at.
#include "fabric/faulty_port.h"

#include <gtest/gtest.h>

#include <deque>

#include "rig.h"

namespace uroce::fabric::test {
namespace {

/// The port behind the faults: takes as many frames as a test allows, in buffers of a length that it sets.
class Outlet final : public Port {
 public:
  uint32_t receive(RxFrame* frames, uint32_t max) override {
    uint32_t count = 0;
    for (; count < max && received_ + count < coming.size(); count++) {
      const Bytes& frame = coming[received_ + count];
      frames[count] = {frame.data(), static_cast<uint32_t>(frame.size()), nullptr, headers ? headers->data() : nullptr};
    }
    received_ += count;
    lent_rx += count;
    return count;
  }
  void release_rx(RxFrame* /*frames*/, uint32_t count) override { lent_rx -= count; }
  uint32_t rx_backlog() override { return static_cast<uint32_t>(coming.size() - received_); }
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override {
    const auto count = static_cast<uint32_t>(std::min<size_t>({max, room, kMaxBurst}));
    for (uint32_t i = 0; i < count; i++) {
      memory_[i].assign(frame_bytes, 0xEE);
      frames[i] = {memory_[i].data(), frame_bytes, 0, nullptr};
    }
    lent_tx += count;
    return count;
  }
  void send(TxFrame* frames, uint32_t count) override {
    lent_tx -= count;
    for (uint32_t i = 0; i < count; i++) {
      if (frames[i].bytes == 0) continue;
      hops += frames[i].hop.place != nullptr ? 1 : 0;
      sent.emplace_back(frames[i].data, frames[i].data + frames[i].bytes);
      room--;
    }
  }
  bool queues_by_destination() const override { return true; }
  bool congested(const MacAddress& dst, uint32_t dest_qpn) override { return dst == host(7) && dest_qpn == 9; }
  NextHops* next_hops() override { return &places; }

  std::vector<Bytes> sent;
  std::vector<Bytes> coming;
  const Bytes* headers = nullptr;
  size_t room = SIZE_MAX;
  uint32_t frame_bytes = 4352;
  struct Places final : NextHops {
    NextHop find(const MacAddress& /*dst*/, uint32_t /*dest_qpn*/) override { return {this, 1}; }
    bool congested(const NextHop& /*hop*/) override { return false; }
    const uint64_t& epoch() const override { return only; }
    uint64_t only = 1;
  } places;
  uint64_t hops = 0;  // frames that named a hop
  int64_t lent_rx = 0;
  int64_t lent_tx = 0;

 private:
  size_t received_ = 0;
  std::array<Bytes, kMaxBurst> memory_;
};

class BadCable {
 public:
  static constexpr int64_t kStart = 1'000'000'000;

  explicit BadCable(std::string_view text, uint32_t frame_bytes = 2048)
      : port_(parsed(text), outlet, frame_bytes, [this] { return now; }) {}
  ~BadCable() {
    EXPECT_EQ(outlet.lent_rx, 0);
    EXPECT_EQ(outlet.lent_tx, 0);
  }

  /// Sends them in one burst. Returns the number for which there was room.
  size_t send(const std::vector<Bytes>& frames) {
    std::vector<TxFrame> lent(Port::kMaxBurst);
    const uint32_t count = port_.acquire_tx(lent.data(), static_cast<uint32_t>(frames.size()));
    for (uint32_t i = 0; i < count; i++) {
      EXPECT_GE(lent[i].capacity, frames[i].size());
      std::copy(frames[i].begin(), frames[i].end(), lent[i].data);
      lent[i].bytes = static_cast<uint32_t>(frames[i].size());
    }
    port_.send(lent.data(), count);
    return count;
  }
  /// All that has come out since the last call.
  std::vector<Bytes> take() { return std::exchange(outlet.sent, {}); }
  /// The same when `ns` nanoseconds have passed since the start.
  std::vector<Bytes> take_at(int64_t ns) {
    now = {kStart + ns};
    port_.flush();
    return take();
  }
  std::vector<Bytes> receive() {
    RxFrame frames[Port::kMaxBurst];
    const uint32_t count = port_.receive(frames, Port::kMaxBurst);
    std::vector<Bytes> all;
    for (uint32_t i = 0; i < count; i++) all.emplace_back(frames[i].data, frames[i].data + frames[i].bytes);
    port_.release_rx(frames, count);
    return all;
  }
  std::vector<Bytes> receive_at(int64_t ns) {
    now = {kStart + ns};
    return receive();
  }
  uint64_t counted(const std::string& name) const {
    uint64_t found = UINT64_MAX;
    port_.for_each_counter([&](const std::string& counter, uint64_t value) {
      if (counter == name) found = value;
    });
    return found;
  }
  /// Nanoseconds since the start; -1: none.
  int64_t next_ns() const { return port_.next_timeout() == Instant::never() ? -1 : port_.next_timeout().ns - kStart; }

  Instant now{kStart};
  Outlet outlet;

  FaultyPort& port() { return port_; }

 private:
  static LinkFaults parsed(std::string_view text) {
    LinkFaults faults;
    EXPECT_EQ(parse_link_faults(text, faults), "") << text;
    if (!faults.seed) faults.seed = 1;
    return faults;
  }

  FaultyPort port_;
};

/// Frames that differ by their PSN.
Bytes numbered(uint32_t psn, uint32_t bytes = 200) { return frame_bytes({.bytes = bytes, .psn = psn}); }

std::vector<Bytes> several(uint32_t count, uint32_t bytes = 200) {
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < count; i++) frames.push_back(numbered(i, bytes));
  return frames;
}

using Frames = std::vector<Bytes>;

TEST(FaultyPort, LosesTheFrameThatIsNamed) {
  BadCable cable("drop 2nd");
  const Frames frames = several(3);
  EXPECT_EQ(cable.send(frames), 3u);
  EXPECT_EQ(cable.take(), (Frames{frames[0], frames[2]})) << "at once, and with their bytes";
  EXPECT_EQ(cable.counted("fault_out_dropped_by_rule"), 1u);
  EXPECT_EQ(cable.counted("fault_out_frames"), 3u);
  EXPECT_EQ(cable.next_ns(), -1);
}

TEST(FaultyPort, LosesAnArpRequestLikeEverythingElse) {
  BadCable cable("drop 1st");
  Bytes arp{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0,  0, 0, 0, 1, 0x08, 0x06, 0, 1, 0x08, 0,  6, 4, 0,
            1,    2,    0,    0,    0,    0,    1, 10, 0, 0, 1, 0, 0,    0,    0, 0, 0,    10, 0, 0, 2};
  arp.resize(60);
  cable.send({arp});
  EXPECT_EQ(cable.take(), Frames());
  cable.send({arp});
  EXPECT_EQ(cable.take(), Frames{arp});
}

TEST(FaultyPort, DelaysToTheNanosecond) {
  BadCable cable("delay all by 50us");
  cable.send({numbered(1)});
  EXPECT_EQ(cable.take(), Frames());
  EXPECT_EQ(cable.next_ns(), 50'000);
  EXPECT_EQ(cable.take_at(49'999), Frames());
  EXPECT_FALSE(cable.port().is_due());
  cable.now = {BadCable::kStart + 50'000};
  EXPECT_TRUE(cable.port().is_due());
  EXPECT_EQ(cable.take_at(50'000), Frames{numbered(1)});
  EXPECT_EQ(cable.next_ns(), -1);
  EXPECT_EQ(cable.counted("fault_out_delayed_by_rule"), 1u);
}

TEST(FaultyPort, OthersOvertakeOneThatIsDelayed) {
  BadCable cable("delay 1st by 10us");
  const Frames frames = several(3);
  cable.send(frames);
  EXPECT_EQ(cable.take(), (Frames{frames[1], frames[2]}));
  cable.now = {BadCable::kStart + 10'000};
  cable.send({numbered(9)});
  EXPECT_EQ(cable.take(), (Frames{frames[0], numbered(9)})) << "what was sent earlier and is due goes first";
}

TEST(FaultyPort, ReordersWithinTheSpan) {
  BadCable cable("reorder 50% within 20us");
  const Frames frames = several(32);
  cable.send(frames);
  Frames arrived = cable.take();
  EXPECT_LT(arrived.size(), 32u);
  EXPECT_GT(arrived.size(), 0u);
  const Frames late = cable.take_at(20'000);
  EXPECT_EQ(cable.counted("fault_out_reordered"), late.size());
  arrived.insert(arrived.end(), late.begin(), late.end());
  EXPECT_NE(arrived, frames);
  std::sort(arrived.begin(), arrived.end());
  Frames sorted = frames;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(arrived, sorted);
}

TEST(FaultyPort, DoublesDamagesAndMarks) {
  BadCable twice("duplicate 1st by 5us");
  twice.send({numbered(1), numbered(2)});
  EXPECT_EQ(twice.take(), (Frames{numbered(1), numbered(2)}));
  EXPECT_EQ(twice.take_at(5'000), Frames{numbered(1)});
  EXPECT_EQ(twice.counted("fault_out_duplicated_by_rule"), 1u);

  BadCable damaged("corrupt 1st");
  damaged.send({numbered(1)});
  ASSERT_EQ(damaged.outlet.sent.size(), 1u);
  EXPECT_EQ(damaged.outlet.sent[0].size(), numbered(1).size());
  EXPECT_NE(damaged.outlet.sent[0], numbered(1));

  BadCable marked("mark every 2 data");
  marked.send(several(2));
  ASSERT_EQ(marked.outlet.sent.size(), 2u);
  EXPECT_EQ(ecn(marked.outlet.sent[0]), Ecn::kEct0);
  EXPECT_EQ(ecn(marked.outlet.sent[1]), Ecn::kMarked);
  EXPECT_EQ(marked.counted("fault_out_marked_by_rule"), 1u);
}

TEST(FaultyPort, TheSeedDecides) {
  const auto pattern = [](const std::string& seed) {
    BadCable cable("loss 30%; corrupt 10.0%; duplicate 20% within 9us; reorder 20% within 9us; seed " + seed);
    Frames arrived;
    for (uint32_t i = 0; i < 50; i++) {
      cable.now = {BadCable::kStart + i * 1000};
      cable.send({numbered(i)});
      const Frames now = cable.take();
      arrived.insert(arrived.end(), now.begin(), now.end());
    }
    return arrived;
  };
  EXPECT_EQ(pattern("7"), pattern("7"));
  EXPECT_NE(pattern("7"), pattern("8"));
}

// A frame of 976 bytes takes a millisecond on a cable of 8 Mbit/s.
constexpr uint32_t kMillisecondFrame = 976;
constexpr int64_t kMs = 1'000'000;

TEST(FaultyPort, FramesLeaveOneAfterTheOtherAtTheRate) {
  BadCable cable("rate 8M");
  const Frames frames = several(3, kMillisecondFrame);
  cable.send(frames);
  EXPECT_EQ(cable.take(), Frames());
  for (uint32_t i = 0; i < 3; i++) {
    EXPECT_EQ(cable.take_at((i + 1) * kMs - 1), Frames()) << i;
    EXPECT_EQ(cable.take_at((i + 1) * kMs), Frames{frames[i]}) << i;
  }
  EXPECT_EQ(cable.next_ns(), -1);
  cable.now = {BadCable::kStart + 10 * kMs};
  cable.send({frames[0]});
  EXPECT_EQ(cable.next_ns(), 11 * kMs) << "the cable was idle, which is no credit";
}

TEST(FaultyPort, ALateLoopDoesNotLowerTheRate) {
  BadCable cable("rate 8M");
  cable.send(several(20, kMillisecondFrame));
  EXPECT_EQ(cable.take_at(10 * kMs).size(), 10u);
  EXPECT_EQ(cable.take_at(10 * kMs + 1).size(), 0u);
  EXPECT_EQ(cable.next_ns(), 11 * kMs);
}

TEST(FaultyPort, ALoopThatWasStoppedDoesNotCatchUpOnAllOfIt) {
  BadCable cable("rate 80K; frames 64");  // 100 ms a frame
  cable.send(several(40, kMillisecondFrame));
  const size_t at_once = cable.take_at(10'000 * kMs).size();
  EXPECT_GE(at_once, 10u);
  EXPECT_LE(at_once, 12u) << "a second's worth";
}

TEST(FaultyPort, TheQueueIsBounded) {
  BadCable cable("rate 8M; queue 3K");
  const Frames frames = several(5, kMillisecondFrame);
  EXPECT_EQ(cable.send(frames), 5u);
  EXPECT_EQ(cable.counted("fault_queue_full"), 2u) << "three of 976 bytes wait";
  EXPECT_EQ(cable.counted("fault_queue_most_bytes"), 3u * kMillisecondFrame);
  EXPECT_EQ(cable.take_at(10 * kMs), (Frames{frames[0], frames[1], frames[2]})) << "the newest are dropped";
}

TEST(FaultyPort, AFrameLongerThanTheQueuePassesAlone) {
  BadCable cable("rate 8M; queue 100");
  cable.send(several(2, kMillisecondFrame));
  EXPECT_EQ(cable.take_at(10 * kMs).size(), 1u);
  EXPECT_EQ(cable.counted("fault_queue_full"), 1u);
}

TEST(FaultyPort, MarksByWhatWaits) {
  BadCable cable("rate 8M; ecn kmin=1K,kmax=1K,pmax=1");
  Frames frames = several(3, kMillisecondFrame);
  frames.push_back(frame_bytes({.ecn = Ecn::kNotCapable, .bytes = kMillisecondFrame}));
  frames.push_back(numbered(8, kMillisecondFrame));
  frames.push_back(numbered(9, kMillisecondFrame));
  cable.send(frames);
  const Frames arrived = cable.take_at(10 * kMs);
  ASSERT_EQ(arrived.size(), 6u);
  for (const unsigned i : {0u, 1u, 2u}) EXPECT_EQ(ecn(arrived[i]), Ecn::kMarked) << i;
  EXPECT_EQ(ecn(arrived[3]), Ecn::kNotCapable);
  EXPECT_EQ(ecn(arrived[4]), Ecn::kEct0) << "976 bytes are left";
  EXPECT_EQ(ecn(arrived[5]), Ecn::kEct0);
  EXPECT_EQ(cable.counted("fault_ecn_marked"), 3u);
  EXPECT_EQ(cable.counted("fault_ecn_not_capable"), 1u);
}

TEST(FaultyPort, APauseDoesNotWaitForTheRate) {
  BadCable cable("rate 8M");
  Pause pause;
  pause.src_mac = host(1);
  pause.priorities = 8;
  Bytes bytes(kPauseFrameBytes);
  encode_pause(bytes, pause);
  cable.send({numbered(1, kMillisecondFrame), bytes});
  EXPECT_EQ(cable.take(), Frames{bytes});
}

TEST(FaultyPort, RateAndDelayAddUp) {
  BadCable cable("rate 8M; delay all by 5ms");
  cable.send({numbered(1, kMillisecondFrame)});
  EXPECT_EQ(cable.take_at(6 * kMs - 1), Frames());
  EXPECT_EQ(cable.take_at(6 * kMs).size(), 1u);
}

TEST(FaultyPort, NoMoreAreDelayedThanThereIsMemoryFor) {
  BadCable cable("delay all by 1s; frames 2");
  const Frames frames = several(5);
  EXPECT_EQ(cable.send(frames), 5u);
  EXPECT_EQ(cable.counted("fault_out_delay_full"), 3u);
  for (unsigned repeat = 0; repeat < 1000; repeat++) EXPECT_EQ(cable.send(several(64)), 64u);
  EXPECT_EQ(cable.take_at(1000 * kMs), (Frames{frames[0], frames[1]}));
}

TEST(FaultyPort, AFrameLongerThanTheDevicesBufferIsDropped) {
  BadCable cable("drop 100");
  cable.outlet.frame_bytes = 199;
  cable.send({numbered(1, 200), numbered(2, 199), numbered(3, 200)});
  EXPECT_EQ(cable.take(), Frames{numbered(2, 199)});
  EXPECT_EQ(cable.counted("fault_out_too_long"), 2u);
}

TEST(FaultyPort, WaitsForADeviceThatTakesNothing) {
  BadCable cable("drop 100");
  cable.outlet.room = 2;
  const Frames frames = several(4);
  cable.send(frames);
  EXPECT_EQ(cable.take(), (Frames{frames[0], frames[1]}));
  EXPECT_TRUE(cable.port().is_due());
  EXPECT_EQ(cable.send({numbered(9)}), 0u) << "nothing is lent as long as something waits";
  cable.outlet.room = SIZE_MAX;
  EXPECT_EQ(cable.send({numbered(9)}), 1u);
  EXPECT_EQ(cable.take(), (Frames{frames[2], frames[3], numbered(9)}));
}

TEST(FaultyPort, BuffersThatWereNotUsedComeBack) {
  BadCable cable("drop 1000000; frames 1");
  for (unsigned repeat = 0; repeat < 1000; repeat++) {
    TxFrame frames[Port::kMaxBurst];
    ASSERT_EQ(cable.port().acquire_tx(frames, Port::kMaxBurst), Port::kMaxBurst);
    cable.port().send(frames, Port::kMaxBurst);
  }
  EXPECT_EQ(cable.take(), Frames());
}

TEST(FaultyPort, WhatComesInIsLeftAloneUnlessItIsNamed) {
  BadCable cable("drop 1st");
  cable.outlet.coming = several(2);
  EXPECT_EQ(cable.port().rx_backlog(), 2u);
  RxFrame frames[Port::kMaxBurst];
  ASSERT_EQ(cable.port().receive(frames, Port::kMaxBurst), 2u);
  EXPECT_EQ(frames[0].data, cable.outlet.coming[0].data()) << "not even copied";
  cable.port().release_rx(frames, 2);
  EXPECT_TRUE(cable.port().queues_by_destination());
  EXPECT_TRUE(cable.port().congested(host(7), 9));
  EXPECT_FALSE(cable.port().congested(host(7), 8));
  EXPECT_NE(cable.outlet.next_hops(), nullptr);
  EXPECT_EQ(cable.port().next_hops(), nullptr) << "a frame may be another one when it comes out";
}

TEST(FaultyPort, AHopThatAFrameHasIsNotPassedOn) {
  BadCable cable("delay 1st by 10us");
  TxFrame frame;
  ASSERT_EQ(cable.port().acquire_tx(&frame, 1), 1u);
  const Bytes bytes = numbered(0);
  std::copy(bytes.begin(), bytes.end(), frame.data);
  frame.bytes = static_cast<uint32_t>(bytes.size());
  frame.hop = {&frame, 1};
  cable.port().send(&frame, 1);
  cable.now = cable.now + microseconds(20);
  cable.port().flush();
  EXPECT_EQ(cable.outlet.sent, Frames{bytes});
  EXPECT_EQ(cable.outlet.hops, 0u);
}

TEST(FaultyPort, WhatComesInMeetsItsOwnFaults) {
  BadCable cable("in: drop 2nd; delay 3rd by 10us");
  const Frames frames = several(4);
  cable.outlet.coming = frames;
  EXPECT_EQ(cable.receive(), (Frames{frames[0], frames[3]}));
  EXPECT_EQ(cable.outlet.lent_rx, 0) << "the device has its frames back while one is delayed";
  EXPECT_EQ(cable.next_ns(), 10'000);
  EXPECT_EQ(cable.receive_at(9'999), Frames());
  EXPECT_EQ(cable.receive_at(10'000), Frames{frames[2]});
  EXPECT_EQ(cable.counted("fault_in_dropped_by_rule"), 1u);
  EXPECT_EQ(cable.counted("fault_in_delayed_by_rule"), 1u);
  cable.send(frames);
  EXPECT_EQ(cable.take(), frames) << "what is sent has none";
}

TEST(FaultyPort, HeadersAreThoseThatNobodyCanChange) {
  BadCable cable("in: drop 100");
  Bytes headers = numbered(5);
  headers.resize(RxFrame::kHeaderBytes);
  cable.outlet.coming = {numbered(1)};
  cable.outlet.headers = &headers;
  const Frames got = cable.receive();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(std::equal(headers.begin(), headers.end(), got[0].begin()));
  EXPECT_TRUE(std::equal(got[0].begin() + RxFrame::kHeaderBytes, got[0].end(),
                         cable.outlet.coming[0].begin() + RxFrame::kHeaderBytes, cable.outlet.coming[0].end()));
}

TEST(FaultyPort, WhatComesInIsBoundedToo) {
  BadCable cable("in: delay all by 10us; frames 2", 200);
  cable.outlet.coming = {numbered(0, 201), numbered(1), numbered(2), numbered(3)};
  EXPECT_EQ(cable.receive(), Frames());
  EXPECT_EQ(cable.receive_at(10'000), (Frames{numbered(1), numbered(2)}));
  EXPECT_EQ(cable.counted("fault_in_too_long"), 1u);
  EXPECT_EQ(cable.counted("fault_in_delay_full"), 1u);
}

/// More than there is memory for: nothing is kept of a frame that finds no room.
TEST(FaultyPort, WhatFindsTheInboundDelayFullGivesItsMemoryBack) {
  for (const char* text : {"in: delay all by 10us; frames 2", "in: delay all by 10us; duplicate 100%; frames 3"}) {
    BadCable cable(text);
    uint64_t full = 0;
    for (uint32_t round = 1; round <= 20; round++) {
      const Frames frames = several(60);
      cable.outlet.coming.insert(cable.outlet.coming.end(), frames.begin(), frames.end());
      EXPECT_EQ(cable.receive(), Frames());
      EXPECT_GT(cable.counted("fault_in_delay_full"), full);
      full = cable.counted("fault_in_delay_full");
      ASSERT_GE(cable.receive_at(round * 10'000).size(), 2u) << text << " " << round;
    }
    EXPECT_EQ(cable.counted("fault_in_no_memory"), 0u) << text;
    cable.receive_at(1000 * kMs);
    EXPECT_EQ(cable.next_ns(), -1) << "nothing is under way";
  }
}

TEST(FaultyPort, NothingLeaksInALongRun) {
  BadCable cable(
      "loss 10%; duplicate 10%; reorder 10%; rate 1G; queue 4K; frames 16; in: loss 10%; duplicate 10%; "
      "reorder 10%");
  for (uint32_t i = 0; i < 20'000; i++) {
    cable.now = {BadCable::kStart + i * 3000};
    cable.outlet.coming.push_back(numbered(i));
    ASSERT_EQ(cable.send(several(3)), 3u) << i;
    cable.take();
    cable.receive();
  }
  EXPECT_GT(cable.counted("fault_queue_full"), 0u);
  EXPECT_EQ(cable.counted("fault_in_no_memory"), 0u);
  EXPECT_EQ(cable.counted("fault_out_no_frame_memory"), 0u);
}

}  // namespace
}  // namespace uroce::fabric::test
