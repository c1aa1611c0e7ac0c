// Stop and start with packets inside the card. It takes up to 32 of them from the ring at once, reads their data late,
// and neither disabling the ring nor configuring it anew takes them back. So every frame has to leave once, with the
// bytes that it had when it was sent; and no buffer may be given back that the card still reads.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "pmd/card/taken_packets.h"
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

constexpr unsigned kTaken = card::TakenPackets::kMost;

/// A card that outlives its driver.
class SameCard final : public Bus {
 public:
  explicit SameCard(std::shared_ptr<ModelBus> card) : card_(std::move(card)) {}
  /// As when its process is killed: nothing more passes to the card or from it.
  bool killed = false;

  std::string name() const override { return card_->name(); }
  size_t bar_bytes() const override { return card_->bar_bytes(); }
  uint32_t read32(uint32_t offset) override { return killed ? kAllOnes : card_->read32(offset); }
  void write32(uint32_t offset, uint32_t value) override {
    if (!killed) card_->write32(offset, value);
  }
  volatile uint32_t* doorbell_word(unsigned interface, QueueKind kind, unsigned queue, uint32_t offset) override {
    return card_->doorbell_word(interface, kind, queue, offset);
  }
  bool needs_run() const override { return true; }
  bool outlives_driver() const override { return true; }
  void run() override {
    if (!killed) card_->run();
  }
  int map_memory(void* address, size_t bytes, int fd, uint64_t offset) override {
    return card_->map_memory(address, bytes, fd, offset);
  }
  int unmap_memory(void* address, size_t bytes) override { return card_->unmap_memory(address, bytes); }
  unsigned interrupt_count() const override { return card_->interrupt_count(); }
  int set_interrupt(unsigned number, int event_fd) override { return card_->set_interrupt(number, event_fd); }

 private:
  std::shared_ptr<ModelBus> card_;
};

class StopStart : public DriverRig {
 protected:
  static constexpr unsigned kPosted = kTaken + 8;

  void SetUp() override {
    DriverRig::SetUp();
    card = std::make_shared<ModelBus>(card::CardConfig{});
    wire = &card->wire();
    wire->loop = false;
    attach();
  }
  void attach() {
    auto driver = std::make_unique<SameCard>(card);
    bus_of_driver = driver.get();
    ASSERT_EQ(attach_bus(std::move(driver)), 0);
  }
  /// All that the process had is gone, and the card was not told.
  void kill() {
    bus_of_driver->killed = true;
    detach();
    scribble_over_free_buffers();
  }
  /// Sends numbered frames and runs the card.
  void post(unsigned first, unsigned count, uint16_t queue = 0) {
    for (unsigned i = first; i < first + count; ++i) ASSERT_EQ(send(make_frame(200, i), queue), 1);
    card->run();
  }
  static std::vector<Bytes> frames(unsigned first, unsigned count) {
    std::vector<Bytes> all;
    for (unsigned i = first; i < first + count; ++i) all.push_back(make_frame(200, i));
    return all;
  }
  /// As other users of the buffers that were freed.
  void scribble_over_free_buffers() {
    std::vector<rte_mbuf*> all(rte_mempool_avail_count(tx_pool));
    ASSERT_EQ(rte_pktmbuf_alloc_bulk(tx_pool, all.data(), static_cast<unsigned>(all.size())), 0);
    for (rte_mbuf* m : all) memset(m->buf_addr, 0xee, m->buf_len);
    rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  }
  void obey_pauses() {
    rte_eth_fc_conf pauses{};
    ASSERT_EQ(rte_eth_dev_flow_ctrl_get(port, &pauses), 0);
    pauses.mode = RTE_ETH_FC_RX_PAUSE;
    ASSERT_EQ(rte_eth_dev_flow_ctrl_set(port, &pauses), 0);
  }
  /// A pause frame; its time does not pass while the card's quantum step is 0.
  void peer_says(bool stop) {
    card->write32(kQuantaSteps, 0);
    const auto quanta = static_cast<uint8_t>(stop ? 0xff : 0);
    Bytes pause = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0x00, 0x01, quanta, quanta};
    pause.resize(60);
    wire->to_card.push_back(pause);
    card->run();
  }

  void expect_no_surprise() {
    for (const char* name : {"tx_wrong_index", "tx_foreign_queue", "tx_lost_completions", "tx_stale_completions"})
      EXPECT_EQ(xstat(name), 0u) << name;
  }
  unsigned in_use() const { return rte_mempool_in_use_count(tx_pool); }

  // Of the default build.
  static constexpr uint32_t kQuantaSteps = 0x81028;

  std::shared_ptr<ModelBus> card;
  SameCard* bus_of_driver = nullptr;
  TestWire* wire = nullptr;
};

TEST_F(StopStart, WhatAPausedPeerHeldUpLeavesBeforeTheStopEnds) {
  ASSERT_EQ(start(), 0);
  obey_pauses();
  peer_says(true);
  post(0, kPosted);
  ASSERT_TRUE(wire->from_card.empty());
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(wire->from_card, frames(0, kTaken)) << "what the card had taken; it never saw the others";
  EXPECT_EQ(in_use(), 0u);
  wire->from_card.clear();
  scribble_over_free_buffers();
  ASSERT_EQ(rte_eth_dev_start(port), 0);
  rte_eth_fc_conf pauses{};
  ASSERT_EQ(rte_eth_dev_flow_ctrl_get(port, &pauses), 0);
  EXPECT_EQ(pauses.mode, RTE_ETH_FC_RX_PAUSE) << "as it was set";
  post(100, 5);
  EXPECT_TRUE(wire->from_card.empty()) << "the peer's pause lasts";
  peer_says(false);
  card->run();
  EXPECT_EQ(wire->from_card, frames(100, 5));
  expect_no_surprise();
}

TEST_F(StopStart, WhatNeverLeavesKeepsItsBuffersUntilTheNextLife) {
  ASSERT_EQ(start(), 0);
  wire->jammed = true;
  post(0, kPosted);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(in_use(), kTaken) << "the card still reads these";
  scribble_over_free_buffers();
  ASSERT_EQ(rte_eth_dev_start(port), 0);
  wire->jammed = false;
  post(100, 200);
  std::vector<Bytes> expected = frames(0, kTaken);
  const std::vector<Bytes> later = frames(100, 200);
  expected.insert(expected.end(), later.begin(), later.end());
  EXPECT_EQ(wire->from_card, expected) << "each once, as it was";
  expect_no_surprise();
}

TEST_F(StopStart, ASingleQueueDoesTheSame) {
  ASSERT_EQ(start({.tx_queues = 2}), 0);
  wire->jammed = true;
  post(0, kPosted, 1);
  ASSERT_EQ(rte_eth_dev_tx_queue_stop(port, 1), 0);
  EXPECT_EQ(in_use(), kTaken);
  scribble_over_free_buffers();
  ASSERT_EQ(rte_eth_dev_tx_queue_start(port, 1), 0);
  wire->jammed = false;
  post(100, 5, 1);
  std::vector<Bytes> expected = frames(0, kTaken);
  const std::vector<Bytes> later = frames(100, 5);
  expected.insert(expected.end(), later.begin(), later.end());
  EXPECT_EQ(wire->from_card, expected);
  expect_no_surprise();
}

TEST_F(StopStart, AlsoWhenTheQueueIsSetUpAnew) {
  ASSERT_EQ(start(), 0);
  post(0, 77);  // so that its pointers are not 0
  wire->from_card.clear();
  wire->jammed = true;
  post(100, kPosted);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  for (const uint16_t descriptors : {uint16_t{64}, uint16_t{1024}}) {
    ASSERT_EQ(start({.descriptors = descriptors}), 0);
    EXPECT_EQ(in_use(), kTaken);
    scribble_over_free_buffers();
    ASSERT_EQ(rte_eth_dev_stop(port), 0);
  }
  ASSERT_EQ(start({.descriptors = 64}), 0);
  wire->jammed = false;
  post(300, 100);
  std::vector<Bytes> expected = frames(100, kTaken);
  const std::vector<Bytes> later = frames(300, 100);
  expected.insert(expected.end(), later.begin(), later.end());
  EXPECT_EQ(wire->from_card, expected);
  expect_no_surprise();
}

TEST_F(StopStart, AFullRingOfTheNextLifeIsNotMistakenForTheLast) {
  ASSERT_EQ(start({.descriptors = 64}), 0);
  wire->jammed = true;
  post(0, kPosted);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  ASSERT_EQ(rte_eth_dev_start(port), 0);
  unsigned accepted = 0;
  while (accepted < 100 && send(make_frame(200, 500 + accepted)) == 1) ++accepted;
  EXPECT_EQ(accepted, 64 - kTaken) << "the rest of the ring is the last life's";
  wire->jammed = false;
  card->run();
  card->run();
  EXPECT_EQ(wire->from_card.size(), kTaken + accepted);
  expect_no_surprise();
}

/// The next start promises that all packets are of one pool. For those of the last start that does not hold.
TEST_F(StopStart, WhatAnotherLifeSentGoesBackToItsOwnPool) {
  rte_mempool* other = rte_pktmbuf_pool_create("other", 511, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  ASSERT_EQ(start(), 0);
  wire->jammed = true;
  for (unsigned i = 0; i < kPosted; ++i)
    ASSERT_EQ(send(make_mbuf(make_frame(200, i), i % 2 == 0 ? tx_pool : other)), 1);
  card->run();
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  ASSERT_EQ(start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE}), 0);
  ASSERT_EQ(in_use() + rte_mempool_in_use_count(other), kTaken);
  wire->jammed = false;
  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(send(make_mbuf(make_frame(200, i), other)), 1);
  card->run();
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(in_use(), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(other), 0u);
  ASSERT_EQ(start({.tx_offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE}), 0);  // a start with no packets of an earlier one
  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(send(make_mbuf(make_frame(200, i), other)), 1);
  card->run();
  detach();
  EXPECT_EQ(rte_mempool_in_use_count(other), 0u);
  rte_mempool_free(other);
}

TEST_F(StopStart, ClosingGivesNothingBackThatTheCardReads) {
  ASSERT_EQ(start(), 0);
  wire->jammed = true;
  post(0, kPosted);
  detach();
  held_by_card = kTaken;
  EXPECT_EQ(in_use(), held_by_card);
}

TEST_F(StopStart, ACardThatEndsWithItsDriverGivesEverythingBack) {
  detach();
  ASSERT_EQ(DriverRig::attach(), 0);
  ASSERT_EQ(start(), 0);
  bus->wire().loop = false;
  bus->wire().jammed = true;
  for (unsigned i = 0; i < kPosted; ++i) ASSERT_EQ(send(make_frame(200, i)), 1);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(in_use(), kTaken);
}

TEST_F(StopStart, WhatLeavesBetweenTwoLivesIsNotLost) {
  ASSERT_EQ(start({.tx_queues = 2}), 0);
  wire->jammed = true;
  post(0, kPosted, 1);
  ASSERT_EQ(rte_eth_dev_tx_queue_stop(port, 1), 0);
  wire->jammed = false;
  card->run();  // the port goes on, and their completions go nowhere
  EXPECT_EQ(wire->from_card, frames(0, kTaken));
  ASSERT_EQ(rte_eth_dev_tx_queue_start(port, 1), 0);
  EXPECT_EQ(in_use(), kTaken);
  post(100, 1, 1);
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 1, 0), static_cast<int>(kTaken) + 1);
  EXPECT_EQ(in_use(), 0u);
  expect_no_surprise();
}

// "464 frames, 87 duplicates, 6 torn, 12 steps backwards": what two starts in a row once did.
TEST_F(StopStart, OtherNumbersOfQueuesKeepTheOrder) {
  std::vector<Bytes> expected;
  wire->jammed = true;
  for (uint16_t life = 0; life < 4; ++life) {
    ASSERT_EQ(start({.rx_queues = static_cast<uint16_t>(1 + life), .tx_queues = 1, .descriptors = 256}), 0);
    if (life == 0) post(0, kPosted);
    ASSERT_EQ(rte_eth_dev_stop(port), 0);
    scribble_over_free_buffers();
    EXPECT_EQ(in_use(), kTaken);
  }
  ASSERT_EQ(start({.rx_queues = 3}), 0);
  wire->jammed = false;
  card->run();
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 0, 0), static_cast<int>(kTaken)) << "they complete where they are expected";
  for (uint16_t q = 0; q < 3; ++q) EXPECT_TRUE(receive(1, q).empty()) << q;
  post(1000, 300);
  expected = frames(0, kTaken);
  const std::vector<Bytes> later = frames(1000, 300);
  expected.insert(expected.end(), later.begin(), later.end());
  EXPECT_EQ(wire->from_card, expected);
  EXPECT_EQ(xstat("rx_foreign_queue"), 0u);
  expect_no_surprise();
}

TEST_F(StopStart, WhatAKilledProcessLeftIsGoneBeforeTheNextBegins) {
  ASSERT_EQ(start(), 0);
  wire->jammed = true;
  post(0, kPosted);
  kill();
  wire->jammed = false;
  attach();
  EXPECT_EQ(wire->from_card.size(), kTaken) << "with what is in their memory now: nobody can help that";
  wire->from_card.clear();
  ASSERT_EQ(start(), 0);
  post(100, 5);
  EXPECT_EQ(wire->from_card, frames(100, 5));
  expect_no_surprise();
}

TEST_F(StopStart, WhatAKilledProcessLeftIsKnownForWhatItIs) {
  ASSERT_EQ(start(), 0);
  wire->jammed = true;
  post(0, kPosted);
  kill();
  attach();
  ASSERT_EQ(start({.descriptors = 64}), 0);
  unsigned accepted = 0;
  while (accepted < 100 && send(make_frame(200, 500 + accepted)) == 1) ++accepted;
  EXPECT_EQ(accepted, 64u);
  wire->jammed = false;
  for (int i = 0; i < 4; ++i) card->run();
  ASSERT_EQ(wire->from_card.size(), kTaken + accepted);
  wire->from_card.erase(wire->from_card.begin(), wire->from_card.begin() + kTaken);
  EXPECT_EQ(wire->from_card, frames(500, accepted)) << "no buffer was given back too early";
  EXPECT_GT(rte_eth_tx_done_cleanup(port, 0, 0), 0);
  EXPECT_EQ(xstat("tx_stale_completions"), kTaken);
  EXPECT_EQ(xstat("tx_wrong_index"), 0u);
  // They took the room of as many of the ring's own completions; the next completion covers those.
  post(0, 1);
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 0, 0), static_cast<int>(kTaken) + 1);
  EXPECT_EQ(in_use(), 0u);
  EXPECT_EQ(xstat("tx_lost_completions"), kTaken);
}

TEST_F(StopStart, ACardThatIsPulledGivesEverythingBack) {
  ASSERT_EQ(start(), 0);
  wire->jammed = true;
  post(0, kPosted);
  card->card().remove();
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(in_use(), 0u);
}

TEST_F(StopStart, ARingThatIsFullOfFormerLivesIsNotStarted) {
  ASSERT_EQ(start({.descriptors = 64}), 0);
  wire->jammed = true;
  post(0, kPosted);
  ASSERT_EQ(rte_eth_dev_tx_queue_stop(port, 0), 0);
  wire->jammed = false;
  card->run();  // they leave without completions
  ASSERT_EQ(rte_eth_dev_tx_queue_start(port, 0), 0);
  wire->jammed = true;
  post(100, 64 - kTaken);
  ASSERT_EQ(rte_eth_dev_tx_queue_stop(port, 0), 0);
  EXPECT_EQ(in_use(), 64u);
  wire->jammed = false;
  card->run();
  EXPECT_EQ(rte_eth_dev_tx_queue_start(port, 0), -EBUSY) << "it could send nothing, for ever";
  ASSERT_EQ(rte_eth_tx_queue_setup(port, 0, 256, 0, nullptr), 0);
  ASSERT_EQ(rte_eth_dev_tx_queue_start(port, 0), 0);
  wire->from_card.clear();
  post(200, 100);
  EXPECT_EQ(wire->from_card, frames(200, 100));
  expect_no_surprise();
}

TEST_F(StopStart, ACardThatIsPulledLaterGivesEverythingBackToo) {
  ASSERT_EQ(start(), 0);
  wire->jammed = true;
  post(0, kPosted);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(in_use(), kTaken);
  card->card().remove();
  detach();
  EXPECT_EQ(in_use(), 0u);
}

TEST_F(StopStart, WhatLeftBesideAQueueThatIsStuckIsGivenBack) {
  ASSERT_EQ(start({.tx_queues = 2}), 0);
  obey_pauses();
  peer_says(true);
  post(0, 3, 1);
  post(100, kPosted, 0);
  wire->room = 3;  // once the pause does not hold any more
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(wire->from_card, frames(0, 3));
  EXPECT_EQ(in_use(), kTaken - 3) << "those of queue 0";
  wire->room = SIZE_MAX;
  ASSERT_EQ(start({.tx_queues = 2, .descriptors = 256}), 0);
  peer_says(false);
  card->run();
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 0, 0), static_cast<int>(kTaken) - 3);
  EXPECT_EQ(in_use(), 0u);
}

TEST_F(StopStart, TimesOfTheLastLifeAreNotThoseOfThis) {
  ASSERT_EQ(start(), 0);
  ASSERT_EQ(rte_eth_timesync_enable(port), 0);
  ASSERT_EQ(rte_eth_dev_stop(port), 0);
  ASSERT_EQ(rte_eth_dev_start(port), 0);
  timespec time{};
  for (const bool stopped : {false, true}) {
    wire->jammed = true;
    rte_mbuf* m = make_mbuf(make_frame(200));
    m->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
    ASSERT_EQ(send(m), 1);
    card->run();
    if (stopped) {
      ASSERT_EQ(rte_eth_dev_stop(port), 0);
      ASSERT_EQ(rte_eth_dev_start(port), 0);
    }
    wire->jammed = false;
    card->run();
    EXPECT_EQ(rte_eth_tx_done_cleanup(port, 0, 0), 1);
    EXPECT_EQ(rte_eth_timesync_read_tx_timestamp(port, &time), stopped ? -EINVAL : 0) << stopped;
  }
}

}  // namespace
}  // namespace mqnic::test
