// Waits for frames by interrupts of an RX queue, and says how many came: the peer sends back each frame that it is
// sent.
//
//   rx_interrupts EAL-ARGUMENTS -- COUNT
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using std::chrono::steady_clock;

constexpr uint16_t kPort = 0, kFrameBytes = 100;
constexpr int kPatienceMs = 5000;

int fail(const char* what) {
  std::printf("FAILED: %s\n", what);
  std::fflush(stdout);
  return 1;
}

bool start(rte_mempool* pool) {
  rte_eth_conf conf{};
  conf.intr_conf.rxq = 1;
  return rte_eth_dev_configure(kPort, 1, 1, &conf) == 0 &&
         rte_eth_rx_queue_setup(kPort, 0, 128, 0, nullptr, pool) == 0 &&
         rte_eth_tx_queue_setup(kPort, 0, 128, 0, nullptr) == 0 && rte_eth_dev_start(kPort) == 0 &&
         rte_eth_dev_rx_intr_ctl_q(kPort, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, nullptr) == 0;
}

bool send(rte_mempool* pool, uint8_t number) {
  rte_mbuf* frame = rte_pktmbuf_alloc(pool);
  if (frame == nullptr) return false;
  char* const data = rte_pktmbuf_append(frame, kFrameBytes);
  if (data == nullptr) return false;
  std::memset(data, 0x40 + number % 64, kFrameBytes);
  data[0] = data[6] = 2;  // unicast, locally administered
  data[12] = static_cast<char>(0x88);
  data[13] = static_cast<char>(0xb5);
  return rte_eth_tx_burst(kPort, 0, &frame, 1) == 1;
}

/// Frees the received frames and returns their number.
unsigned take() {
  rte_mbuf* frames[32];
  const uint16_t count = rte_eth_rx_burst(kPort, 0, frames, 32);
  rte_pktmbuf_free_bulk(frames, count);
  return count;
}

/// Sends one frame, and waits for its interrupt. False when that does not come.
bool one_round(rte_mempool* pool, unsigned number) {
  if (rte_eth_dev_rx_intr_enable(kPort, 0) != 0) return false;
  rte_epoll_event event{};
  if (rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, 0) != 0) return false;  // nothing has come
  if (!send(pool, static_cast<uint8_t>(number))) return false;
  if (rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, kPatienceMs) != 1) return false;
  if (rte_eth_dev_rx_intr_disable(kPort, 0) != 0) return false;
  unsigned got = 0;
  for (const auto end = steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
       got == 0 && steady_clock::now() < end;) {
    got = take();
  }
  return got == 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int used = rte_eal_init(argc, argv);
  if (used < 0 || used + 1 >= argc) return fail("EAL, or no COUNT");
  const unsigned count = static_cast<unsigned>(std::strtoul(argv[used + 1], nullptr, 10));
  rte_mempool* const pool = rte_pktmbuf_pool_create("frames", 1023, 32, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
  if (pool == nullptr || rte_eth_dev_count_avail() == 0) return fail("no memory, or no port");
  if (!start(pool)) return fail("the port does not start with interrupts");
  rte_eth_link link{};
  for (const auto end = steady_clock::now() + std::chrono::seconds(10);
       link.link_status == 0 && steady_clock::now() < end;) {
    rte_eth_link_get_nowait(kPort, &link);
  }
  unsigned interrupts = 0;
  while (interrupts < count && one_round(pool, interrupts)) interrupts++;
  std::printf("%u of %u frames came with their interrupts\n", interrupts, count);
  std::fflush(stdout);
  rte_eth_dev_stop(kPort);
  rte_eth_dev_close(kPort);
  rte_eal_cleanup();
  return interrupts == count ? 0 : 1;
}
