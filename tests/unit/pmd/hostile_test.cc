// Cards that answer nonsense. The registers are the model's, but it never runs: the test writes completions itself.
//
// Whatever is written, the driver returns mbufs that are whole and its own, loses none, and ends. The sanitizer build
// runs this too.
#include <cstring>
#include <random>
#include <set>

#include "pmd/hw/formats.h"
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

// Of the default build, from the register documentation and the card's own block list.
constexpr uint32_t kCompletionQueues = 0x200000, kCompletionStride = 0x10;

class Hostile : public DriverRig {
 protected:
  /// The memory of a completion queue, whose address the driver gave the card.
  Completion* completions(uint32_t queue) {
    const uint32_t at = kCompletionQueues + queue * kCompletionStride;
    const uint64_t base = bus->read32(at) | uint64_t{bus->read32(at + 4)} << 32;
    return reinterpret_cast<Completion*>(base);
  }

  void prepare(const PortSetup& setup) {
    attach_and_start(setup);
    bus->frozen = true;
    entries_ = setup.descriptors;
    rx_ = completions(0);
    tx_ = completions(bus->card().config().completion_queues - 1);
  }

  static uint8_t phase(uint32_t position, uint32_t entries) { return (position & entries) == 0 ? kPhaseBit : 0; }

  Completion good(uint32_t position, uint16_t bytes) const {
    Completion completion{};
    completion.index = static_cast<uint16_t>(position);
    completion.bytes = bytes;
    completion.phase = phase(position, entries_);
    return completion;
  }

  /// A removed card reads nothing any more, so the driver frees all buffers.
  void pull() { bus->card().remove(); }

  uint32_t entries_ = 0;
  Completion* rx_ = nullptr;
  Completion* tx_ = nullptr;
};

TEST_F(Hostile, LengthAboveTheBuffer) {
  prepare({.descriptors = 64, .mtu = 1500});
  rx_[0] = good(0, 65535);
  rx_[1] = good(1, 1519);
  rx_[2] = good(2, 0);
  rx_[3] = good(3, 100);
  EXPECT_EQ(receive(4).size(), 1u);
  EXPECT_EQ(xstat("rx_oversize"), 2u);
  EXPECT_EQ(xstat("rx_zero_length"), 1u);
  EXPECT_EQ(stats().ierrors, 3u);
}

TEST_F(Hostile, OtherQueueAndOtherIndex) {
  prepare({.descriptors = 64});
  rx_[0] = good(0, 100);
  rx_[0].queue = 5;
  rx_[1] = good(1, 100);
  rx_[1].index = 0;  // the right index, but in the second place
  rx_[2] = good(2, 100);
  rx_[2].index = 10;  // nine were skipped
  EXPECT_EQ(receive(3).size(), 2u);
  EXPECT_EQ(xstat("rx_foreign_queue"), 1u);
  EXPECT_EQ(xstat("rx_lost_completions"), 9u);
  // All 64 are in use again, so every index is possible, and no other is counted as wrong.
  EXPECT_EQ(xstat("rx_wrong_index"), 0u);
}

TEST_F(Hostile, IndexThatIsNotInUse) {
  rte_mempool* small = rte_pktmbuf_pool_create("small", 32, 0, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  prepare({.descriptors = 64, .rx_pool = small});  // half of the ring
  rx_[0] = good(0, 100);
  rx_[0].index = 40;
  EXPECT_EQ(receive(1).size(), 0u);
  EXPECT_EQ(xstat("rx_wrong_index"), 1u);
  detach();
  rte_mempool_free(small);
}

TEST_F(Hostile, WrongPhaseIsNoCompletion) {
  prepare({.descriptors = 64});
  rx_[0] = good(0, 100);
  rx_[0].phase = 0x7f;
  EXPECT_EQ(receive(1).size(), 0u);
  rx_[0].phase = 0xff;
  EXPECT_EQ(receive(1).size(), 1u);
}

TEST_F(Hostile, SentPacketsAreFreedOnceWhateverTheCardSays) {
  prepare({.descriptors = 64});
  for (unsigned i = 0; i < 40; ++i) ASSERT_EQ(send(make_frame(64)), 1u);
  tx_[0] = good(0, 64);
  tx_[0].index = 50;  // not sent yet
  tx_[1] = good(1, 64);
  tx_[1].queue = 9;
  tx_[2] = good(2, 64);
  tx_[2].index = 3;  // and those before it
  tx_[3] = good(3, 64);
  tx_[3].index = 3;  // again
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 0, 0), 4);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 36u);
  EXPECT_EQ(xstat("tx_wrong_index"), 2u);
  EXPECT_EQ(xstat("tx_foreign_queue"), 1u);
  EXPECT_EQ(xstat("tx_lost_completions"), 3u);
  pull();
}

TEST_F(Hostile, OnlyAFewIndexesCanBeStale) {
  prepare({.descriptors = 64});
  for (unsigned i = 0; i < 10; ++i) ASSERT_EQ(send(make_frame(64)), 1u);
  tx_[0] = good(0, 64);
  tx_[0].index = 0xffff;
  tx_[1] = good(1, 64);
  tx_[1].index = 0xffe0;  // 32 before the first
  tx_[2] = good(2, 64);
  tx_[2].index = 0xffdf;
  tx_[3] = good(3, 64);
  tx_[3].index = 64;  // a lap ahead
  EXPECT_EQ(rte_eth_tx_done_cleanup(port, 0, 0), 0);
  EXPECT_EQ(xstat("tx_stale_completions"), 2u);
  EXPECT_EQ(xstat("tx_wrong_index"), 2u);
  pull();
}

struct Storm {
  unsigned seed;
  bool scatter;
};

class Storms : public Hostile, public ::testing::WithParamInterface<Storm> {
 protected:
  uint32_t any(uint32_t below) { return std::uniform_int_distribution<uint32_t>(0, below - 1)(random_); }

  /// Half of the time a field is plausible, so that the others are looked at.
  void scribble(Completion* ring, uint32_t at) {
    Completion& completion = ring[at % entries_];
    uint8_t noise[sizeof(Completion)];
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random_());
    memcpy(&completion, noise, sizeof(noise));
    if (any(2) == 0) completion.queue = 0;
    if (any(2) == 0) completion.index = static_cast<uint16_t>(at);
    if (any(2) == 0) completion.bytes = static_cast<uint16_t>(any(2000));
  }

  void exchange(unsigned rounds);

  std::mt19937 random_;
};

void Storms::exchange(unsigned rounds) {
  std::set<rte_mbuf*> kept;
  for (unsigned round = 0; round < rounds; ++round) {
    for (uint32_t n = any(entries_); n != 0; --n) scribble(rx_, round + n);
    for (uint32_t n = any(entries_); n != 0; --n) scribble(tx_, round + n);
    rte_mbuf* burst[64];
    const uint16_t received = rte_eth_rx_burst(port, 0, burst, static_cast<uint16_t>(any(64) + 1));
    for (uint16_t i = 0; i < received; ++i) {
      ASSERT_TRUE(kept.insert(burst[i]).second) << "the same mbuf twice";
      bytes_of(burst[i]);  // checks the chain and reads every byte
      ASSERT_LE(burst[i]->pkt_len, 1518u);
    }
    for (auto it = kept.begin(); it != kept.end();) {
      const bool free = kept.size() > 500 || any(2) == 0;
      if (free) rte_pktmbuf_free(*it);
      it = free ? kept.erase(it) : std::next(it);
    }
    for (uint32_t n = any(48); n != 0; --n) send(make_frame(60 + any(1000), n));
  }
  for (rte_mbuf* m : kept) rte_pktmbuf_free(m);
}

TEST_P(Storms, NothingIsLostOrTouched) {
  const Storm storm = GetParam();
  random_.seed(storm.seed);
  rte_mempool* rx_pool =
      rte_pktmbuf_pool_create("storm", 2047, 0, 0, (storm.scatter ? 256 : kRoom) + RTE_PKTMBUF_HEADROOM, 0);
  prepare({.descriptors = 64,
           .rx_offloads = storm.scatter ? RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_IPV4_CKSUM |
                                              RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TIMESTAMP
                                        : 0,
           .rx_pool = rx_pool});
  exchange(2000);
  pull();
  detach();
  EXPECT_EQ(rte_mempool_in_use_count(rx_pool), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 0u);
  rte_mempool_free(rx_pool);
}

std::vector<Storm> storms() {
  std::vector<Storm> all;
  for (unsigned seed = 1; seed <= 8; ++seed) all.push_back({seed, seed % 2 == 0});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Seeds, Storms, ::testing::ValuesIn(storms()),
                         [](const auto& storm) { return "seed" + std::to_string(storm.param.seed); });

}  // namespace
}  // namespace mqnic::test
