// Cycles per packet of the driver alone: net_mqnic over a card that answers at no cost. Completions are written between
// the measurements.
//
//   pmd_cycles [ROUNDS]
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "pmd/ethdev/card_kinds.h"
#include "pmd/hw/checksum.h"
#include "pmd/hw/formats.h"
#include "tests/unit/pmd/model_bus.h"

namespace mqnic {
namespace {

constexpr uint16_t kBurst = 32;
constexpr uint32_t kEntries = 1024;

/// The registers of the model, which never runs.
class StillBus final : public test::ModelBus {
 public:
  using ModelBus::ModelBus;
  bool needs_run() const override { return false; }
};

StillBus* bus = nullptr;
std::unique_ptr<Bus> next_bus;

struct Setup {
  const char* what;
  uint32_t bytes;
  uint32_t room;  // of an mbuf
  uint64_t rx_offloads, tx_offloads;
};

Completion* completions(uint32_t queue) {
  const uint32_t at = 0x200000 + queue * 0x10;  // in the default build
  return reinterpret_cast<Completion*>(bus->read32(at) | uint64_t{bus->read32(at + 4)} << 32);
}

/// UDP over IPv4 with right checksums, followed by zeros: the content of every buffer in the pool.
struct Packet {
  rte_ether_hdr ethernet{};
  rte_ipv4_hdr ip{};
  rte_udp_hdr udp{};
};
uint16_t packet_sum = 0;  // as the card reports it

void fill_buffer(rte_mempool*, void* packet, void* object, unsigned) {
  auto* m = static_cast<rte_mbuf*>(object);
  memset(m->buf_addr, 0, m->buf_len);
  memcpy(static_cast<uint8_t*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM, packet, sizeof(Packet));
}

void fill_buffers(rte_mempool* pool, uint32_t bytes) {
  Packet packet;
  const auto ip_bytes = static_cast<uint16_t>(bytes - sizeof(packet.ethernet));
  packet.ethernet.ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
  packet.ip.version_ihl = RTE_IPV4_VHL_DEF;
  packet.ip.total_length = rte_cpu_to_be_16(ip_bytes);
  packet.ip.next_proto_id = IPPROTO_UDP;
  packet.ip.src_addr = packet.ip.dst_addr = RTE_BE32(0x0a000001);
  packet.ip.hdr_checksum = rte_ipv4_cksum(&packet.ip);
  packet.udp.dgram_len = rte_cpu_to_be_16(static_cast<uint16_t>(ip_bytes - sizeof(packet.ip)));
  const uint32_t sum = __builtin_bswap16(rte_ipv4_phdr_cksum(&packet.ip, 0));
  const auto* udp = reinterpret_cast<const uint8_t*>(&packet.udp);
  packet.udp.dgram_cksum = rte_cpu_to_be_16(static_cast<uint16_t>(~ones_complement_sum(udp, sizeof(packet.udp), sum)));
  packet_sum =
      ones_complement_sum(reinterpret_cast<const uint8_t*>(&packet.ip), sizeof(packet.ip) + sizeof(packet.udp));
  rte_mempool_obj_iter(pool, fill_buffer, &packet);
}

/// Writes completions for packets [position, position + kBurst), as the card would.
void complete(Completion* ring, uint32_t position, uint32_t bytes) {
  for (uint32_t i = position; i != position + kBurst; ++i) {
    Completion& completion = ring[i % kEntries];
    completion.index = static_cast<uint16_t>(i);
    completion.bytes = static_cast<uint16_t>(bytes);
    completion.rx_hash = i;
    completion.rx_checksum = packet_sum;
    completion.hash_type = kHashIpv4 | kHashUdp;
    completion.phase = (i & kEntries) == 0 ? kPhaseBit : 0;
  }
}

double median(std::vector<uint64_t>& cycles) {
  const auto middle = cycles.begin() + static_cast<ptrdiff_t>(cycles.size() / 2);
  std::nth_element(cycles.begin(), middle, cycles.end());
  return static_cast<double>(*middle) / kBurst;
}

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "pmd_cycles: %s\n", what);
  exit(1);
}

uint16_t open_port(const Setup& setup, rte_mempool* pool) {
  auto made = std::make_unique<StillBus>(card::CardConfig{});
  bus = made.get();
  next_bus = std::move(made);
  uint16_t port = 0;
  rte_eth_conf conf{};
  conf.rxmode.mtu = 9000;
  conf.rxmode.offloads = setup.rx_offloads;
  conf.txmode.offloads = setup.tx_offloads;
  if (rte_vdev_init("net_mqnic_bench", "card=bench") != 0 ||
      rte_eth_dev_get_port_by_name("net_mqnic_bench", &port) != 0 || rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
      rte_eth_rx_queue_setup(port, 0, kEntries, 0, nullptr, pool) != 0 ||
      rte_eth_tx_queue_setup(port, 0, kEntries, 0, nullptr) != 0 || rte_eth_dev_start(port) != 0) {
    fail("the port does not start");
  }
  return port;
}

double measure_rx(const Setup& setup, uint16_t port, uint32_t rounds) {
  Completion* ring = completions(0);
  std::vector<uint64_t> cycles;
  std::array<rte_mbuf*, kBurst> burst;
  for (uint32_t round = 0; round < rounds; ++round) {
    complete(ring, round * kBurst, setup.bytes);
    const uint64_t start = rte_rdtsc_precise();
    const uint16_t n = rte_eth_rx_burst(port, 0, burst.data(), kBurst);
    cycles.push_back(rte_rdtsc_precise() - start);
    if (n != kBurst) fail("not everything was received");
    const bool verified = (setup.rx_offloads & RTE_ETH_RX_OFFLOAD_UDP_CKSUM) != 0;
    if (verified && (burst[0]->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_GOOD) == 0) fail("the checksum is not good");
    rte_pktmbuf_free_bulk(burst.data(), kBurst);
  }
  return median(cycles);
}

double measure_tx(const Setup& setup, uint16_t port, uint32_t rounds, rte_mempool* pool) {
  Completion* ring = completions(127);  // the last one
  std::vector<uint64_t> cycles;
  std::array<rte_mbuf*, kBurst> burst;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (rte_mbuf*& m : burst) {
      m = rte_pktmbuf_alloc(pool);
      if (m == nullptr) fail("no mbufs");
      for (uint32_t left = setup.bytes; left != 0;) {
        const uint32_t piece = std::min(left, setup.room);
        rte_mbuf* part = left == setup.bytes ? m : rte_pktmbuf_alloc(pool);
        if (part == nullptr || rte_pktmbuf_append(part, static_cast<uint16_t>(piece)) == nullptr) fail("no room");
        if (part != m) rte_pktmbuf_chain(m, part);
        left -= piece;
      }
    }
    const uint64_t start = rte_rdtsc_precise();
    const uint16_t n = rte_eth_tx_burst(port, 0, burst.data(), kBurst);
    cycles.push_back(rte_rdtsc_precise() - start);
    if (n != kBurst) fail("not everything was sent");
    complete(ring, round * kBurst, setup.bytes);
  }
  return median(cycles);
}

void run(const Setup& setup, uint32_t rounds) {
  rte_mempool* pool =
      rte_pktmbuf_pool_create("bench", 8191, 256, 0, static_cast<uint16_t>(setup.room + RTE_PKTMBUF_HEADROOM), 0);
  if (pool == nullptr) fail("no memory");
  fill_buffers(pool, setup.bytes);
  const uint16_t port = open_port(setup, pool);
  const double rx = measure_rx(setup, port, rounds);
  const double tx = measure_tx(setup, port, rounds, pool);
  printf("%-44s rx %6.1f  tx %6.1f cycles/packet\n", setup.what, rx, tx);
  rte_eth_dev_stop(port);
  rte_eth_dev_close(port);
  rte_vdev_uninit("net_mqnic_bench");
  rte_mempool_free(pool);
}

int main_of(uint32_t rounds) {
  ethdev::register_card_kind("bench", [](const ethdev::Arguments&, ethdev::OpenedCard& out) {
    out.bus = std::move(next_bus);
    return Failure{};
  });
  constexpr uint64_t kSums = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
  const Setup setups[] = {
      {"64 B, fast free", 64, 9216, 0, RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE},
      {"64 B", 64, 9216, 0, 0},
      {"64 B, rx checksums, tx multi-segment", 64, 9216, kSums, RTE_ETH_TX_OFFLOAD_MULTI_SEGS},
      {"4200 B, one buffer, fast free", 4200, 9216, 0, RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE},
      {"4200 B, three buffers", 4200, 2048, RTE_ETH_RX_OFFLOAD_SCATTER, RTE_ETH_TX_OFFLOAD_MULTI_SEGS},
  };
  for (const Setup& setup : setups) run(setup, rounds);
  return 0;
}

}  // namespace
}  // namespace mqnic

int main(int argc, char** argv) {
  std::array<char*, 12> arguments{};
  int count = 0;
  for (const char* argument : {"pmd_cycles", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "512",
                               "-l", "0", "--log-level=lib.eal:error"}) {
    arguments[static_cast<size_t>(count++)] = const_cast<char*>(argument);
  }
  if (rte_eal_init(count, arguments.data()) < 0) return 1;
  const int rounds = argc > 1 ? atoi(argv[1]) : 20000;
  const int code = mqnic::main_of(static_cast<uint32_t>(std::max(rounds, 1)));
  rte_eal_cleanup();
  return code;
}
