// What a frame costs the switch at a shared memory port: its own memif (MemifPort) beside DPDK's net_memif, in turns.
//
//   memif_bench [LIMIT]      LIMIT, for example 1.1: exit 1 when the own one takes more than that times the driver's
//
// Frames go from a client (net_memif, both times) to the port and back. Only the time inside the port's receive and
// send is counted, and the best of many short rounds is compared: other work on the machine is not in it.
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "dpdk/clock.h"
#include "dpdk/eal.h"
#include "dpdk/log.h"
#include "dpdk/packet_pool.h"
#include "host/port_plan.h"
#include "uroce_switch/memif_port.h"

namespace uroce::netswitch {
namespace {

constexpr uint32_t kBurst = 32;
constexpr int kBurstsPerRound = 200;
constexpr int kRounds = 101;
constexpr std::array<uint32_t, 3> kSizes{64, 1078, 4174};

std::unique_ptr<DpdkPort> open_memif(const std::string& name, bool connects, const std::string& socket,
                                     rte_mempool* pool, std::string& error) {
  DpdkPortOptions options;
  options.pool = pool;
  options.wire = true;
  options.connects = connects;
  const std::string devargs = memif_devargs(name, connects, socket, MacAddress{});
  if (rte_dev_probe(devargs.c_str()) != 0 || rte_eth_dev_get_port_by_name(name.c_str(), &options.port_id) != 0) {
    error = "no port " + devargs;
    return nullptr;
  }
  return DpdkPort::start(options, error);
}

/// A port of the switch with a client plugged in.
struct Pair {
  std::unique_ptr<SwitchPort> port;
  std::unique_ptr<DpdkPort> client;

  bool connect(const TscClock& clock) {
    const Instant end = clock.now() + milliseconds(10'000);
    while (!port->link_up() || !client->link_up()) {
      if (clock.now() > end) return false;
      port->on_turn(clock.now());
      client->on_turn(clock.now());
    }
    return true;
  }

  /// Cycles that a frame takes, in and out again.
  double round(rte_mempool* pool, uint32_t bytes) {
    uint64_t cycles = 0;
    uint64_t frames = 0;
    std::array<rte_mbuf*, kBurst> mbufs;
    for (int i = 0; i < kBurstsPerRound; i++) {
      if (rte_pktmbuf_alloc_bulk(pool, mbufs.data(), kBurst) != 0) return 0;
      for (rte_mbuf* mbuf : mbufs) mbuf->pkt_len = mbuf->data_len = static_cast<uint16_t>(bytes);
      client->send_mbufs(mbufs.data(), kBurst);
      const uint64_t start = rte_rdtsc_precise();
      const uint32_t count = port->receive(mbufs.data(), kBurst);
      if (count != 0 && port->ready_to_send()) port->send(mbufs.data(), count);
      cycles += rte_rdtsc_precise() - start;
      frames += count;
      while (const uint32_t back = client->receive_mbufs(mbufs.data(), kBurst))
        rte_pktmbuf_free_bulk(mbufs.data(), back);
    }
    return frames == 0 ? 0 : static_cast<double>(cycles) / static_cast<double>(frames);
  }
};

int compare(double limit, std::string& error) {
  const QuietDpdk quiet;
  const std::string folder = runtime_dir(error);
  PacketPoolShape shape;
  shape.name = "bench";
  shape.mbufs = 4095;
  shape.frame_bytes = kWireSlotBytes;
  rte_mempool* const pool = make_packet_pool(shape, error);
  if (pool == nullptr) return 2;
  TscClock clock;
  clock.start();
  Pair own;
  Pair driver;
  own.port = MemifPort::start(folder + "/own", "own", pool, error);
  own.client = open_memif("net_memif0", true, folder + "/own", pool, error);
  if (auto server = open_memif("net_memif1", false, folder + "/driver", pool, error)) {
    driver.port = std::make_unique<EthdevPort>(std::move(server));
  }
  driver.client = open_memif("net_memif2", true, folder + "/driver", pool, error);
  if (!error.empty()) return 2;
  if (!own.connect(clock) || !driver.connect(clock)) {
    error = "the ports do not connect";
    return 2;
  }
  const double to_ns = 1e9 / static_cast<double>(rte_get_tsc_hz());
  double worst = 0;
  std::printf("%8s %14s %14s %8s\n", "bytes", "own ns/frame", "driver", "ratio");
  for (const uint32_t bytes : kSizes) {
    std::array<std::vector<double>, 2> cycles;
    for (int i = 0; i < kRounds; i++) {
      cycles[0].push_back(own.round(pool, bytes));
      cycles[1].push_back(driver.round(pool, bytes));
    }
    const double ours = *std::min_element(cycles[0].begin(), cycles[0].end());
    const double theirs = *std::min_element(cycles[1].begin(), cycles[1].end());
    if (ours == 0 || theirs == 0) {
      error = "no frames came through";
      return 2;
    }
    worst = std::max(worst, ours / theirs);
    std::printf("%8u %14.1f %14.1f %8.2f\n", bytes, ours * to_ns, theirs * to_ns, ours / theirs);
  }
  return limit != 0 && worst > limit ? 1 : 0;
}

}  // namespace
}  // namespace uroce::netswitch

int main(int argc, char** argv) {
  using namespace uroce;
  const std::string folder = "/tmp/uroce-memif-bench-" + std::to_string(getpid());
  setenv("UROCE_RUNTIME_DIR", folder.c_str(), 1);
  EalOptions eal;
  eal.hugepages = Hugepages::kNo;
  std::string error;
  int code = 2;
  if (start_eal(eal, error)) {
    RTE_PER_LCORE(_lcore_id) = rte_get_main_lcore();  // for the pool's cache, as the switch's loop has it
    code = netswitch::compare(argc > 1 ? std::atof(argv[1]) : 0, error);
  }
  if (!error.empty()) std::fprintf(stderr, "memif_bench: %s\n", error.c_str());
  remove_eal_directory();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  std::fflush(stdout);
  std::_Exit(code);  // DPDK's interrupt thread still looks at the ports
}
