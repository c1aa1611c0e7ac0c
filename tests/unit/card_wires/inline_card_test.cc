#include "pmd/card/inline_card.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "pmd/hw/doorbell_page.h"
#include "test_host.h"

namespace mqnic::card {
namespace {

std::unique_ptr<InlineCard> card_with(const std::string& wire, const WireKnobs& knobs = {},
                                      const CardConfig& config = {}) {
  std::vector<std::unique_ptr<Wire>> wires;
  wires.push_back(must_make(wire, knobs));
  return std::make_unique<InlineCard>(config, std::move(wires));
}

/// Runs the card until a frame has come, or for a second.
Frame wait_for_frame(InlineCard& card, TestHost& host) {
  Frame frame;
  for (int i = 0; i < 1'000'000 && frame.empty(); i++) {
    card.run();
    frame = host.receive();
  }
  return frame;
}

TEST(InlineCard, SendsAndReceivesOverALoop) {
  const auto card = card_with("loop");
  EXPECT_TRUE(card->needs_run());
  EXPECT_EQ(card->name(), "inline");
  EXPECT_EQ(card->bar_bytes(), 16u << 20);
  TestHost host(*card);
  ASSERT_NO_FATAL_FAILURE(host.start());
  EXPECT_TRUE(host.link_up());
  uint32_t received = 0;
  for (uint32_t sent = 0; received < 2000;) {
    while (sent < 2000 && host.send(numbered_frame(sent, 60 + sent * 7919 % 9155))) sent++;
    card->run();
    for (Frame frame = host.receive(); !frame.empty(); frame = host.receive(), received++) {
      ASSERT_EQ(frame, numbered_frame(received, 60 + received * 7919 % 9155));
    }
  }
  const CardReport report = card->report();
  EXPECT_EQ(report.tx_frames, 2000u);
  EXPECT_EQ(report.rx_frames, 2000u);
  EXPECT_EQ(report.bad_register_writes, 0u);
  EXPECT_TRUE(card->take_messages().empty());
}

TEST(InlineCard, NothingMovesUntilRun) {
  const auto card = card_with("loop");
  TestHost host(*card);
  ASSERT_NO_FATAL_FAILURE(host.start());
  ASSERT_TRUE(host.send(numbered_frame(1, 100)));
  EXPECT_TRUE(host.receive().empty());
  EXPECT_EQ(wait_for_frame(*card, host), numbered_frame(1, 100));
}

TEST(InlineCard, ItsClockGoesOnWhileNobodyRunsIt) {
  const auto card = card_with("none");
  uint32_t clock = 0;  // found in the block list
  while (card->read32(clock) != 0xc080) clock = card->read32(clock + 8);
  const auto now_ns = [&] {
    (void)card->read32(clock + 0x30);  // takes the snapshot
    return card->read32(clock + 0x34) + uint64_t{card->read32(clock + 0x38)} * 1'000'000'000;
  };
  const uint64_t before = now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_GE(now_ns() - before, 2'000'000u);
}

TEST(InlineCard, OneRunMovesAboutOneBurst) {
  const auto card = card_with("loop");
  TestHost host(*card);
  ASSERT_NO_FATAL_FAILURE(host.start());
  for (uint32_t i = 0; i < TestHost::kEntries; i++) ASSERT_TRUE(host.send(numbered_frame(i, 60)));
  card->run();
  EXPECT_EQ(card->report().tx_frames, InlineCard::kFramesPerRun);
}

TEST(InlineCard, TwoCardsOnOneCable) {
  const RuntimeDirectory directory;
  const auto a = card_with("shm:cable");
  auto b = card_with("shm:cable");
  EXPECT_EQ(a->wire_end(0), 0u);
  EXPECT_EQ(b->wire_end(0), 1u);
  EXPECT_EQ(a->wire_end(1), 0u);
  TestHost host_a(*a);
  ASSERT_NO_FATAL_FAILURE(host_a.start());
  {
    TestHost host_b(*b);
    ASSERT_NO_FATAL_FAILURE(host_b.start());
    for (int i = 0; i < 4; i++, a->run(), b->run()) {
    }
    EXPECT_TRUE(a->link_up(0));
    EXPECT_TRUE(host_a.link_up());
    ASSERT_TRUE(host_a.send(numbered_frame(1, 9214)));
    a->run();
    EXPECT_EQ(wait_for_frame(*b, host_b), numbered_frame(1, 9214));
    ASSERT_TRUE(host_b.send(numbered_frame(2, 60)));
    b->run();
    EXPECT_EQ(wait_for_frame(*a, host_a), numbered_frame(2, 60));
  }
  b.reset();
  a->run();
  EXPECT_FALSE(a->link_up(0));
  EXPECT_FALSE(host_a.link_up());
  EXPECT_FALSE(a->link_up(1)) << "no such port";
}

TEST(InlineCard, HostThatRefillsAfterEveryBurstLosesNothing) {
  const RuntimeDirectory directory;
  const auto a = card_with("shm:cable");
  const auto b = card_with("shm:cable");
  TestHost host_a(*a);
  TestHost host_b(*b);
  ASSERT_NO_FATAL_FAILURE(host_a.start());
  ASSERT_NO_FATAL_FAILURE(host_b.start());
  for (int i = 0; i < 4; i++, a->run(), b->run()) {
  }
  uint32_t sent = 0;
  uint32_t received = 0;
  for (int round = 0; round < 500; round++) {
    // Three bursts are sent for each one that is received: the cable fills up, and the sender has to wait.
    for (int burst = 0; burst < 3; burst++) {
      for (int i = 0; i < 32 && host_a.send(numbered_frame(sent, 1500)); i++) sent++;
      a->run();
    }
    b->run();
    for (Frame frame = host_b.receive(); !frame.empty(); frame = host_b.receive()) {
      ASSERT_EQ(frame, numbered_frame(received++, 1500));
    }
  }
  EXPECT_GT(received, 10'000u);
  EXPECT_LT(sent, 30'000u) << "the cable never filled up";
  EXPECT_EQ(b->report().rx_dropped_no_descriptor, 0u);
}

TEST(InlineCard, ManyThreadsMayRunIt) {
  const auto card = card_with("loop");
  TestHost host(*card);
  ASSERT_NO_FATAL_FAILURE(host.start());
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; i++) {
    others.emplace_back([&] {
      while (!stop) {
        card->run();
        card->read32(0);
      }
    });
  }
  uint32_t sent = 0;
  uint32_t received = 0;
  while (received < 5000) {
    while (sent < 5000 && sent - received < 32 && host.send(numbered_frame(sent, 100))) sent++;
    card->run();
    const Frame frame = host.receive();
    if (frame.empty()) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(frame, numbered_frame(received, 100));
    received++;
  }
  stop = true;
  for (std::thread& other : others) other.join();
}

TEST(InlineCard, WhatWasRungWhileAnotherThreadRanIsSeen) {
  // Two threads run the card once for each doorbell, at the same time: no doorbell may be missed.
  const auto card = card_with("loop");
  TestHost host(*card);
  ASSERT_NO_FATAL_FAILURE(host.start());
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> go{0};
  std::thread other([&] {
    for (uint32_t seen = 0; !stop; std::this_thread::yield()) {
      if (go == seen) continue;
      seen = go;
      card->run();
    }
  });
  for (uint32_t i = 0; i < 2000; i++) {
    ASSERT_TRUE(host.send(numbered_frame(i, 60)));
    go++;
    card->run();
    // The other thread may still be about to run the card for us: give it time to finish.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (card->report().tx_frames != i + 1 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    ASSERT_EQ(card->report().tx_frames, i + 1);
    card->run();
    for (Frame frame = host.receive(); !frame.empty(); frame = host.receive()) {
    }
  }
  stop = true;
  other.join();
}

TEST(InlineCard, DoorbellWordsAreThereForTheQueuesOfItsInterfaces) {
  CardConfig config;
  config.interfaces = 2;
  const auto card = card_with("none", {}, config);
  using Kind = Bus::QueueKind;
  EXPECT_NE(card->doorbell_word(0, Kind::kTx, 0, 0), nullptr);
  EXPECT_NE(card->doorbell_word(1, Kind::kEvent, 8191, 0), nullptr);
  EXPECT_EQ(card->doorbell_word(2, Kind::kTx, 0, 0), nullptr);
  EXPECT_EQ(card->doorbell_word(0, Kind::kTx, 8192, 0), nullptr);
  EXPECT_NE(card->doorbell_word(0, Kind::kTx, 1, 0), card->doorbell_word(0, Kind::kRx, 1, 0));
  EXPECT_NE(card->doorbell_word(0, Kind::kTx, 1, 0), card->doorbell_word(1, Kind::kTx, 1, 0));
}

TEST(InlineCard, MemoryIsMappedOnceAndUnmappedExactly) {
  const auto card = card_with("none");
  alignas(4096) static uint8_t page[8192];
  EXPECT_EQ(card->map_memory(page, sizeof page, -1, 0), 0);
  EXPECT_EQ(card->map_memory(page + 4096, 4096, -1, 0), -EEXIST);
  EXPECT_EQ(card->map_memory(page, 0, -1, 0), -EINVAL);
  EXPECT_EQ(card->unmap_memory(page, 4096), -ENOENT);
  EXPECT_EQ(card->unmap_memory(page, sizeof page), 0);
  EXPECT_EQ(card->unmap_memory(page, sizeof page), -ENOENT);
}

TEST(InlineCard, RemovedCardReadsAllOnes) {
  const auto card = card_with("loop");
  EXPECT_NE(card->read32(0), 0u);
  card->remove();
  EXPECT_EQ(card->read32(4), kAllOnes);
  card->write32(4, 1);
  card->run();
}

TEST(InlineCard, CableWithKnobs) {
  WireKnobs knobs;
  std::string error;
  ASSERT_TRUE(set_wire_knob(knobs, "loss", "50%", error));
  const auto card = card_with("loop", knobs);
  TestHost host(*card);
  ASSERT_NO_FATAL_FAILURE(host.start());
  for (uint32_t i = 0; i < 1000; i++) {
    host.send(numbered_frame(i, 60));
    card->run();
    host.receive();
  }
  for (int i = 0; i < 10; i++, card->run(), host.receive()) {
  }
  EXPECT_EQ(card->report().tx_frames, 1000u);
  EXPECT_NEAR(static_cast<double>(card->report().rx_frames), 500.0, 80.0);
}

TEST(InlineCard, FileIsPlayedFromItsFirstFrameOnceThePortReceives) {
  const RuntimeDirectory directory;
  const std::string path = directory.path() + "/play.pcap";
  {
    const auto recorder = must_make("pcap::" + path);
    for (uint32_t i = 0; i < 50; i++) put(*recorder, numbered_frame(i, 100));
  }
  const std::string copy = directory.path() + "/out.pcap";
  const auto card = card_with("pcap:" + path + ":" + copy);
  for (int i = 0; i < 100; i++) card->run();
  TestHost host(*card);
  ASSERT_NO_FATAL_FAILURE(host.start());
  for (uint32_t i = 0; i < 50; i++) ASSERT_EQ(wait_for_frame(*card, host), numbered_frame(i, 100));
  ASSERT_TRUE(host.send(numbered_frame(77, 200)));
  card->run();
  EXPECT_TRUE(card->take_messages().empty());
  const auto player = must_make("pcap:" + copy);
  player->set_receiving(true);
  EXPECT_EQ(take(*player), numbered_frame(77, 200));
}

TEST(InlineCard, PassesOnWhatItsWiresSay) {
  const RuntimeDirectory directory;
  const std::string path = directory.path() + "/play.pcap";
  {
    const auto recorder = must_make("pcap::" + path);
    put(*recorder, numbered_frame(1, 100));
  }
  std::filesystem::resize_file(path, 100);
  const auto card = card_with("pcap:" + path);
  TestHost host(*card);
  ASSERT_NO_FATAL_FAILURE(host.start());
  card->run();
  EXPECT_EQ(card->take_messages(),
            std::vector<std::string>{"wire of port 0: the file that is played is damaged, or cut off"});
  EXPECT_TRUE(card->take_messages().empty());
}

}  // namespace
}  // namespace mqnic::card
