// The same driver with the card behind a socket: memory shared by its descriptors, doorbells in shared memory,
// interrupts by eventfds, and a card that can go away at any time.
#include <rte_interrupts.h>
#include <rte_memory.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "pmd/card/vfio_user_server.h"
#include "pmd/card/wires/make_wire.h"
#include "tests/unit/pmd/driver_rig.h"

namespace mqnic::test {
namespace {

using std::chrono::milliseconds;

class VfioUser : public DriverRig {
 protected:
  static constexpr char kDevice[] = "net_mqnic_far";

  void SetUp() override {
    DriverRig::SetUp();
    socket_ = ::testing::TempDir() + "mqnic_card_" + std::to_string(getpid()) + ".sock";
    start_card();
    if (!memory_can_be_shared()) {
      stop_card();
      GTEST_SKIP() << "no memory that can be shared";
    }
    ASSERT_EQ(rte_vdev_init(kDevice, ("card=vfio-user,socket=" + socket_).c_str()), 0);
    ASSERT_EQ(rte_eth_dev_get_port_by_name(kDevice, &port), 0);
  }
  void TearDown() override {
    if (port != RTE_MAX_ETHPORTS) {
      rte_eth_dev_stop(port);
      EXPECT_EQ(rte_vdev_uninit(kDevice), 0);
    }
    port = RTE_MAX_ETHPORTS;
    stop_card();
    DriverRig::TearDown();
  }

  /// Whether EAL's memory has a file (memfd), which the card's process could map.
  static bool memory_can_be_shared() {
    const auto has_file = [](const rte_memseg_list*, const rte_memseg* segment, void*) {
      return rte_memseg_get_fd_thread_unsafe(segment) >= 0 ? 1 : 0;
    };
    return rte_memseg_walk(has_file, nullptr) == 1;
  }

  void start_card() {
    std::string error;
    std::vector<std::unique_ptr<card::Wire>> wires;
    wires.push_back(card::make_wire("loop", {}, error));
    server_ = card::VfioUserServer::listen(socket_, {}, std::move(wires), error);
    ASSERT_NE(server_, nullptr) << error;
    stop_ = false;
    thread_ = std::thread([this] { server_->serve([this] { return stop_.load(); }); });
  }
  void stop_card() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }

  /// The card runs in another thread, so frames take a while.
  std::vector<Bytes> receive_within(size_t count, milliseconds most) {
    std::vector<Bytes> all;
    const auto deadline = std::chrono::steady_clock::now() + most;
    while (all.size() < count && std::chrono::steady_clock::now() < deadline) {
      for (Bytes& frame : receive(count - all.size())) all.push_back(std::move(frame));
      if (all.size() < count) std::this_thread::yield();
    }
    return all;
  }

  std::string socket_;
  std::unique_ptr<card::VfioUserServer> server_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
};

TEST_F(VfioUser, FramesPassAndPortsRestart) {
  for (unsigned round = 0; round < 3; ++round) {
    ASSERT_EQ(
        start({.rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER, .tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS, .mtu = 9000}),
        0);
    for (unsigned i = 0; i < 100; ++i) {
      const Bytes frame = make_frame(60 + 80 * i, i);
      const auto half = static_cast<uint16_t>(frame.size() / 5);
      ASSERT_EQ(send(make_chain(frame, {half, half, half, half, static_cast<uint16_t>(frame.size() - 4u * half)})), 1u);
      const std::vector<Bytes> received = receive_within(1, milliseconds(2000));
      ASSERT_EQ(received.size(), 1u) << round << " " << i;
      ASSERT_EQ(received[0], frame);
    }
    ASSERT_EQ(rte_eth_dev_stop(port), 0);
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 0u);
  }
  stop_card();
  port = RTE_MAX_ETHPORTS;
  EXPECT_EQ(rte_vdev_uninit(kDevice), 0);
}

TEST_F(VfioUser, RxInterrupts) {
  ASSERT_EQ(start({.rx_interrupts = true}), 0);
  ASSERT_EQ(rte_eth_dev_rx_intr_ctl_q(port, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, nullptr), 0);
  for (unsigned round = 0; round < 50; ++round) {
    ASSERT_EQ(rte_eth_dev_rx_intr_enable(port, 0), 0);
    ASSERT_EQ(send(make_frame(64, round)), 1u);
    rte_epoll_event event{};
    ASSERT_EQ(rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, 2000), 1) << round;
    ASSERT_EQ(rte_eth_dev_rx_intr_disable(port, 0), 0);
    ASSERT_EQ(receive_within(1, milliseconds(2000)).size(), 1u);
  }
  ASSERT_EQ(rte_eth_dev_rx_intr_ctl_q(port, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_DEL, nullptr), 0);
}

std::atomic<int> removed_by_user{0};

int on_user_removal(uint16_t, rte_eth_event_type, void*, void*) {
  ++removed_by_user;
  return 0;
}

TEST_F(VfioUser, CardThatGoesAwayIsNoticedWithoutAsking) {
  ASSERT_EQ(start(), 0);
  removed_by_user = 0;
  ASSERT_EQ(rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_RMV, on_user_removal, nullptr), 0);
  for (unsigned i = 0; i < 10; ++i) ASSERT_EQ(send(make_frame(64)), 1u);
  stop_card();
  for (int i = 0; i < 400 && removed_by_user == 0; ++i) {
    rte_mbuf* m = nullptr;
    if (rte_eth_rx_burst(port, 0, &m, 1) != 0) rte_pktmbuf_free(m);
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(removed_by_user, 1);
  EXPECT_EQ(send(make_frame(64)), 0u);
  EXPECT_EQ(rte_eth_dev_stop(port), 0);
  EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), 0u);
}

}  // namespace
}  // namespace mqnic::test
