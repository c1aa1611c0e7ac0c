// Two endpoints of a DPDK application, on ports that it has already: shared memory for a cable, each driven by a thread
// of the application alone.
#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_eth_ring.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "dpdk/log.h"
#include "eal_environment.h"
#include "endpoint_on_wire.h"

namespace uroce {
namespace {

/// Makes a port as an application has it after --vdev.
std::string make_port(unsigned end) {
  const QuietDpdk quiet;
  const std::string devargs = memif_end(4, end);
  EXPECT_EQ(rte_dev_probe(devargs.c_str()), 0);
  return devargs.substr(0, devargs.find(','));
}

TEST(ApplicationEndpoints, TwoAreDrivenByItsThreads) {
  EndpointOnWire a(make_port(0), Progress::kInline);
  EndpointOnWire b(make_port(1), Progress::kInline);
  a.config.addresses = {*parse_local_address("10.0.0.1/24")};
  b.config.addresses = {*parse_local_address("10.0.0.2/24")};
  for (EndpointOnWire* each : {&a, &b}) {
    each->config.eal_running = true;
    ASSERT_TRUE(each->open()) << each->error;
  }
  unsigned id_of_a = 0;
  {
    const EngineLock owner(*a.endpoint);
    id_of_a = rte_lcore_id();
  }
  EXPECT_EQ(id_of_a, rte_get_main_lcore()) << "the thread that opened it is that one";
  {
    const EngineLock owner(*b.endpoint);
    EXPECT_NE(rte_lcore_id(), id_of_a);
  }
  a.connect(b);
  b.connect(a);
  a.fill(1);
  b.fill(2);
  // Nothing else drives the endpoints: one that is done goes on answering.
  std::atomic<int> done{0};
  const auto work = [&](EndpointOnWire& own) {
    EXPECT_EQ(own.write(20), WcStatus::kSuccess);
    done++;
    while (done < 2) {
      const EngineLock owner(*own.endpoint);
      own.endpoint->drive();
    }
  };
  std::thread one([&] { work(a); });
  std::thread two([&] { work(b); });
  one.join();
  two.join();
  EXPECT_EQ(a.received(), b.out);
  EXPECT_EQ(b.received(), a.out);
}

/// The port stays the application's, and its queues keep the packets' memory.
TEST(ApplicationEndpoints, APortIsOpenedAgain) {
  rte_ring* ring = rte_ring_create("again", 64, SOCKET_ID_ANY, 0);
  ASSERT_GE(rte_eth_from_rings("again", &ring, 1, &ring, 1, 0), 0);
  const auto pools = [] {
    unsigned count = 0;
    rte_mempool_walk([](rte_mempool*, void* number) { ++*static_cast<unsigned*>(number); }, &count);
    return count;
  };
  unsigned after_first = 0;
  for (const uint32_t mtu : {1500u, 1500u, 4200u, 1500u, 4200u}) {
    EndpointOnWire own("net_ring_again", Progress::kInline);
    own.config.eal_running = true;
    own.config.mtu = mtu;
    own.config.addresses = {*parse_local_address("10.0.1.1/24")};
    ASSERT_TRUE(own.open()) << own.error;
    if (after_first == 0) after_first = pools();
    EXPECT_LE(pools(), after_first + 1) << "one more for frames that did not fit";
  }
}

}  // namespace
}  // namespace uroce
