// Cycles per packet of the driver and the model of the card together, beside DPDK's net_memif in the same process, in
// turns: two inline cards joined by a cable, two net_memif ports joined by shared memory. Packets go round for ever, as
// with testpmd's io forwarding; nobody looks into them.
//
//   model_cycles [ROUNDS [BYTES]]
//
// The best and the median of many short rounds are printed: other work on the machine is hardly in the best ones.
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace mqnic {
namespace {

constexpr uint16_t kBurst = 32, kRing = 512;
constexpr int kTurnsPerRound = 300, kTurnsToConnect = 20'000'000;
constexpr uint32_t kPacketsPerPort = 8 * kBurst;
constexpr uint16_t kRoom = 4608;

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "model_cycles: %s\n", what);
  exit(1);
}

uint16_t open_port(const std::string& name, const std::string& arguments, rte_mempool* pool) {
  uint16_t port = 0;
  rte_eth_conf conf{};
  conf.rxmode.mtu = 4200;
  if (rte_vdev_init(name.c_str(), arguments.c_str()) != 0 || rte_eth_dev_get_port_by_name(name.c_str(), &port) != 0) {
    fail("no port");
  }
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(port, &info) != 0) fail("no port");
  // net_memif cannot set an MTU, and takes long frames anyway.
  conf.rxmode.mtu = std::min<uint32_t>(conf.rxmode.mtu, info.max_rx_pktlen - 18);
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;  // as testpmd does
  if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 || rte_eth_rx_queue_setup(port, 0, kRing, 0, nullptr, pool) != 0 ||
      rte_eth_tx_queue_setup(port, 0, kRing, 0, nullptr) != 0 || rte_eth_dev_start(port) != 0) {
    fail("a port does not start");
  }
  return port;
}

struct Pair {
  const char* what;
  std::array<uint16_t, 2> ports{};
  std::vector<double> cycles{};

  /// Polls each port once: frames received by one leave by the other.
  uint32_t turn() const {
    uint32_t count = 0;
    std::array<rte_mbuf*, kBurst> burst;
    for (const unsigned side : {0u, 1u}) {
      const uint16_t n = rte_eth_rx_burst(ports[side], 0, burst.data(), kBurst);
      if (n == 0) continue;
      count += n;
      const uint16_t sent = rte_eth_tx_burst(ports[1 - side], 0, burst.data(), n);
      if (sent != n) rte_pktmbuf_free_bulk(burst.data() + sent, n - sent);
    }
    return count;
  }

  void fill(rte_mempool* pool, uint32_t bytes) const {
    for (const uint16_t port : ports) {
      for (uint32_t i = 0; i < kPacketsPerPort; i += kBurst) {
        std::array<rte_mbuf*, kBurst> burst;
        if (rte_pktmbuf_alloc_bulk(pool, burst.data(), kBurst) != 0) fail("no mbufs");
        for (rte_mbuf* m : burst) {
          auto* data = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(m, static_cast<uint16_t>(bytes)));
          memset(data, 0, bytes);
          data[12] = 0x08;  // UDP over IPv4, as testpmd sends: the card hashes it
          data[14] = 0x45;
          data[23] = 17;
        }
        const uint16_t sent = rte_eth_tx_burst(port, 0, burst.data(), kBurst);
        rte_pktmbuf_free_bulk(burst.data() + sent, kBurst - sent);
      }
    }
  }

  /// Until no more frames come.
  void drain() const {
    std::array<rte_mbuf*, kBurst> burst;
    for (int idle = 0; idle < 1000; ++idle) {
      for (const uint16_t port : ports) {
        const uint16_t n = rte_eth_rx_burst(port, 0, burst.data(), kBurst);
        rte_pktmbuf_free_bulk(burst.data(), n);
        if (n != 0) idle = 0;
      }
    }
  }

  /// Until frames arrive, so that both ends know each other.
  void connect(rte_mempool* pool) const {
    for (int i = 0; i < kTurnsToConnect; ++i) {
      rte_mbuf* m = i % 1000 == 0 ? rte_pktmbuf_alloc(pool) : nullptr;
      if (m != nullptr) {
        memset(rte_pktmbuf_append(m, 64), 0, 64);
        if (rte_eth_tx_burst(ports[0], 0, &m, 1) == 0) rte_pktmbuf_free(m);
      }
      if (turn() != 0) return drain();
    }
    fail("the ports do not connect");
  }

  void round() {
    for (int i = 0; i < kTurnsPerRound / 10; ++i) turn();
    uint64_t packets = 0;
    const uint64_t start = rte_rdtsc_precise();
    for (int i = 0; i < kTurnsPerRound; ++i) packets += turn();
    const uint64_t took = rte_rdtsc_precise() - start;
    if (packets != 0) cycles.push_back(static_cast<double>(took) / static_cast<double>(packets));
  }

  double best() const { return *std::min_element(cycles.begin(), cycles.end()); }
  double median() {
    const auto middle = cycles.begin() + static_cast<ptrdiff_t>(cycles.size() / 2);
    std::nth_element(cycles.begin(), middle, cycles.end());
    return *middle;
  }
};

int main_of(int rounds, const std::vector<uint32_t>& sizes, const std::string& folder) {
  rte_mempool* pool = rte_pktmbuf_pool_create("bench", 8191, 256, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  if (pool == nullptr) fail("no memory");
  const std::string card = "card=inline,wire=shm:cycles" + std::to_string(getpid());
  const std::string memif = ",id=0,rsize=10,bsize=4608,socket-abstract=no,socket=" + folder + "/memif";
  Pair cards{"two cards", {open_port("net_mqnic0", card, pool), open_port("net_mqnic1", card, pool)}};
  Pair memifs{
      "net_memif",
      {open_port("net_memif0", "role=server" + memif, pool), open_port("net_memif1", "role=client" + memif, pool)}};
  cards.connect(pool);
  memifs.connect(pool);
  printf("%6s %-10s %14s %8s\n", "bytes", "", "best (median)", "ratio");
  for (const uint32_t bytes : sizes) {
    for (Pair* pair : {&cards, &memifs}) {
      pair->cycles.clear();
      pair->drain();
      pair->fill(pool, bytes);
    }
    for (int i = 0; i < rounds; ++i) {
      cards.round();
      memifs.round();
    }
    for (Pair* pair : {&cards, &memifs}) {
      if (pair->cycles.empty()) fail("no packets came through");
      printf("%6u %-10s %6.1f (%6.1f) cycles/packet %5.2f\n", bytes, pair->what, pair->best(), pair->median(),
             memifs.best() / pair->best());
    }
  }
  return 0;
}

}  // namespace
}  // namespace mqnic

int main(int argc, char** argv) {
  std::array<char*, 12> arguments{};
  int count = 0;
  for (const char* argument : {"model_cycles", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "256",
                               "-l", "0", "--log-level=error"}) {
    arguments[static_cast<size_t>(count++)] = const_cast<char*>(argument);
  }
  if (rte_eal_init(count, arguments.data()) < 0) return 1;
  const std::string folder = "/tmp/uroce-model-cycles-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const int rounds = argc > 1 ? atoi(argv[1]) : 100;
  std::vector<uint32_t> sizes{64, 1078, 4200};
  if (argc > 2) sizes = {static_cast<uint32_t>(std::clamp(atoi(argv[2]), 64, 4200))};
  const int code = mqnic::main_of(std::max(rounds, 1), sizes, folder);
  std::filesystem::remove_all(folder);
  fflush(stdout);
  std::_Exit(code);  // net_memif's interrupt thread still uses its ports
}
