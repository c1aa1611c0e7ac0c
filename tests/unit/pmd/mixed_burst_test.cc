// Bursts in which no packet is like its neighbour: what is done fast for one must not hold for the next.
#include <algorithm>

#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

class MixedBurst : public DriverRig {
 protected:
  void SetUp() override {
    DriverRig::SetUp();
    many_ = rte_pktmbuf_pool_create("mixed", 2047, 64, 0, RTE_PKTMBUF_HEADROOM + kRoom, 0);
    ASSERT_NE(many_, nullptr);
  }
  void TearDown() override {
    DriverRig::TearDown();
    EXPECT_EQ(rte_mempool_avail_count(many_), 2047u);
    rte_mempool_free(many_);
  }

  /// Receives in bursts of 32 the frames on the cable, in order, and passes each mbuf to `look`.
  template <typename Look>
  void receive_each(size_t count, Look look) {
    size_t seen = 0;
    for (int idle = 0; idle < 100 && seen < count;) {
      rte_mbuf* burst[32];
      const uint16_t n = rte_eth_rx_burst(port, 0, burst, 32);
      idle = n == 0 ? idle + 1 : 0;
      for (uint16_t i = 0; i < n; ++i) look(seen++, burst[i]);
      rte_pktmbuf_free_bulk(burst, n);
    }
    EXPECT_EQ(seen, count);
  }

  rte_mempool* many_ = nullptr;
};

constexpr uint64_t kVerifySums = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
constexpr uint64_t kGoodIp = RTE_MBUF_F_RX_IP_CKSUM_GOOD, kGoodL4 = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
constexpr uint64_t kBadIp = RTE_MBUF_F_RX_IP_CKSUM_BAD, kBadL4 = RTE_MBUF_F_RX_L4_CKSUM_BAD;
constexpr uint64_t kAllVerdicts = RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK;

struct Expected {
  Bytes frame;
  uint64_t verdicts;
};

Expected received_frame(unsigned number) {
  const size_t payload = 18 + number % 900;
  Bytes frame = make_udp(payload, 0x0a000001 + number);
  switch (number % 8) {
    case 0:
      frame[23 - 1] ^= 1;  // the time to live
      return {frame, kBadIp};
    case 1:
      frame.back() ^= 0x40;
      return {frame, kGoodIp | kBadL4};
    case 2:
      return {make_frame(60 + payload, number), 0};
    case 3:  // with a VLAN tag
      frame.insert(frame.begin() + 12, {0x81, 0x00, 0x00, 0x07});
      return {frame, kGoodIp | kGoodL4};
    case 4:  // with padding
      frame = make_udp(number % 5 + 1);
      frame.resize(60, static_cast<uint8_t>(number));
      return {frame, kGoodIp | kGoodL4};
    case 5:  // UDP without a checksum
      frame[40] = frame[41] = 0;
      return {frame, kGoodIp};
    default:
      return {frame, kGoodIp | kGoodL4};
  }
}

TEST_F(MixedBurst, EveryFrameHasItsOwnVerdict) {
  attach_and_start({.descriptors = 64, .rx_offloads = kVerifySums});
  bus->wire().loop = false;
  unsigned number = 0;
  for (unsigned round = 0; round < 20; ++round) {
    const unsigned first = number;
    for (; number < first + 50; ++number) bus->wire().to_card.push_back(received_frame(number).frame);
    receive_each(50, [&](size_t i, rte_mbuf* m) {
      const Expected expected = received_frame(first + static_cast<unsigned>(i));
      ASSERT_EQ(bytes_of(m), expected.frame) << first + i;
      ASSERT_EQ(m->ol_flags & kAllVerdicts, expected.verdicts) << (first + i) % 8;
    });
  }
  EXPECT_EQ(xstat("rx_bad_ip_checksum"), 125u);
  EXPECT_EQ(xstat("rx_bad_l4_checksum"), 125u);
}

TEST_F(MixedBurst, OnlyWhatWasAskedForIsSaidAndCounted) {
  for (const uint64_t offload : {RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, RTE_ETH_RX_OFFLOAD_UDP_CKSUM}) {
    attach_and_start({.rx_offloads = offload});
    const bool ip = offload == RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
    const uint64_t said = ip ? RTE_MBUF_F_RX_IP_CKSUM_MASK : RTE_MBUF_F_RX_L4_CKSUM_MASK;
    bus->wire().loop = false;
    for (unsigned number = 0; number < 48; ++number) bus->wire().to_card.push_back(received_frame(number).frame);
    receive_each(48, [&](size_t i, rte_mbuf* m) {
      const Expected expected = received_frame(static_cast<unsigned>(i));
      ASSERT_EQ(m->ol_flags & kAllVerdicts, expected.verdicts & said) << i;
    });
    EXPECT_EQ(xstat("rx_bad_ip_checksum"), ip ? 6u : 0u);
    EXPECT_EQ(xstat("rx_bad_l4_checksum"), ip ? 0u : 6u);
    detach();
  }
}

// Frames of one buffer, of several, and of exactly full ones in one burst, over many laps of a small ring, with
// checksums.
TEST_F(MixedBurst, FramesOfOneBufferAndOfSeveral) {
  attach_and_start(
      {.descriptors = 64, .rx_offloads = kVerifySums | RTE_ETH_RX_OFFLOAD_SCATTER, .mtu = 9000, .rx_pool = many_});
  bus->wire().loop = false;
  const size_t sizes[] = {60, 2047, 2048, 2049, 4096, 4097, 6144, 6145, 8192, 9000, 64};
  const auto frame_of = [&](size_t i) {
    return make_udp(sizes[i % std::size(sizes)] - 42, static_cast<uint32_t>(0x0a000001 + i));
  };
  size_t number = 0;
  for (unsigned round = 0; round < 40; ++round) {
    const size_t first = number, count = 1 + round % 40;
    for (; number < first + count; ++number) bus->wire().to_card.push_back(frame_of(number));
    receive_each(count, [&](size_t i, rte_mbuf* m) {
      const Bytes frame = frame_of(first + i);
      ASSERT_EQ(m->nb_segs, (frame.size() + kRoom - 1) / kRoom);
      ASSERT_EQ(m->pkt_len, frame.size());
      ASSERT_EQ(bytes_of(m), frame) << frame.size();
      ASSERT_EQ(m->ol_flags & kAllVerdicts, kGoodIp | kGoodL4) << frame.size();
    });
  }
  EXPECT_EQ(bus->card().report().rx_clamped_buffer, 0u);
}

// The pool runs out and fills again: every frame that the card took is delivered whole.
TEST_F(MixedBurst, SeveralBuffersFromAPoolThatRunsDry) {
  rte_mempool* small = rte_pktmbuf_pool_create("small", 64 * 5 + 40, 0, 0, RTE_PKTMBUF_HEADROOM + kRoom, 0);
  ASSERT_NE(small, nullptr);
  attach_and_start({.descriptors = 64, .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER, .mtu = 9000, .rx_pool = small});
  bus->wire().loop = false;
  std::vector<Bytes> frames;
  for (unsigned i = 0; i < 5; ++i) frames.push_back(make_frame(5000, i));
  std::vector<rte_mbuf*> held;
  unsigned number = 0, delivered = 0;
  for (unsigned round = 0; round < 200; ++round) {
    for (unsigned i = 0; i < 20; ++i) bus->wire().to_card.push_back(frames[number++ % 5]);
    for (unsigned i = 0; i < 8; ++i) {
      rte_mbuf* burst[8];
      const uint16_t n = rte_eth_rx_burst(port, 0, burst, 8);
      for (uint16_t p = 0; p < n; ++p) {
        ASSERT_EQ(burst[p]->pkt_len, 5000u);
        ASSERT_EQ(burst[p]->nb_segs, 3u);
        const Bytes bytes = bytes_of(burst[p]);
        ASSERT_NE(std::find(frames.begin(), frames.end(), bytes), frames.end());
        held.push_back(burst[p]);
        ++delivered;
      }
    }
    if (round % 4 == 3) {
      rte_pktmbuf_free_bulk(held.data(), static_cast<unsigned>(held.size()));
      held.clear();
    }
  }
  rte_pktmbuf_free_bulk(held.data(), static_cast<unsigned>(held.size()));
  EXPECT_GT(xstat("rx_no_mbufs"), 0u);
  EXPECT_GT(delivered, 1000u);
  EXPECT_EQ(bus->card().report().rx_clamped_buffer, 0u);
  detach();
  EXPECT_EQ(rte_mempool_avail_count(small), 64u * 5 + 40);
  rte_mempool_free(small);
}

TEST_F(MixedBurst, EverySentPacketHasItsOwnFlagsAndPieces) {
  attach_and_start(
      {.descriptors = 64,
       .tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
  bus->wire().loop = false;
  unsigned number = 0;
  std::vector<Bytes> expected;
  for (unsigned round = 0; round < 60; ++round) {
    rte_mbuf* burst[32];
    const auto count = static_cast<uint16_t>(1 + round % 32);
    for (uint16_t i = 0; i < count; ++i, ++number) {
      const Bytes whole = make_udp(18 + number % 300, 0x0a000001 + number);
      Bytes given = whole;
      const bool ip = number % 3 == 0, udp = number % 5 < 2;
      if (ip) given[24] = given[25] = 0xee;
      if (udp) given[40] = given[41] = 0;
      if (udp) {  // the sum of the pseudo-header
        unsigned sum = 17 + static_cast<unsigned>(whole.size() - 34);
        for (size_t at = 26; at < 34; at += 2) sum += unsigned{whole[at]} << 8 | whole[at + 1];
        while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
        given[40] = static_cast<uint8_t>(sum >> 8);
        given[41] = static_cast<uint8_t>(sum);
      }
      const auto first = static_cast<uint16_t>(42 + number % 10), rest = static_cast<uint16_t>(whole.size() - first);
      rte_mbuf* m = number % 4 == 1   ? make_chain(given, {first, rest})
                    : number % 4 == 2 ? make_chain(given, {first, uint16_t(rest / 2), uint16_t(rest - rest / 2)})
                                      : make_mbuf(given);
      m->l2_len = 14;
      m->l3_len = 20;
      if (ip) m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
      if (udp) m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
      burst[i] = m;
      expected.push_back(whole);
    }
    ASSERT_EQ(rte_eth_tx_burst(port, 0, burst, count), count);
    for (int i = 0; i < 3; ++i) bus->run();
  }
  ASSERT_EQ(bus->wire().from_card.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(bus->wire().from_card[i], expected[i]) << i;
  EXPECT_EQ(xstat("tx_bad_offload"), 0u);
  EXPECT_EQ(xstat("tx_software_sums"), 0u);
}

}  // namespace
}  // namespace mqnic::test
