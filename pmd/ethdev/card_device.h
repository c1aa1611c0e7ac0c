// One card, shared by the ethdevs of its ports: its bus, its description, the memory that it may use, and whether it is
// still there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "pmd/ethdev/held_packets.h"
#include "pmd/hw/bus.h"
#include "pmd/hw/description.h"
#include "pmd/hw/failure.h"
#include "pmd/hw/ptp_clock.h"

namespace mqnic::ethdev {

/// A bus that several threads may configure, because memory can come and go while a port is being set up.
class GuardedBus final : public Bus {
 public:
  explicit GuardedBus(std::unique_ptr<Bus> bus) : bus_(std::move(bus)) {}
  Bus& inner() { return *bus_; }

  std::string name() const override { return bus_->name(); }
  size_t bar_bytes() const override { return bus_->bar_bytes(); }
  uint32_t read32(uint32_t offset) override {
    const std::lock_guard lock(mutex_);
    return bus_->read32(offset);
  }
  void write32(uint32_t offset, uint32_t value) override {
    const std::lock_guard lock(mutex_);
    bus_->write32(offset, value);
  }
  volatile uint32_t* doorbell_word(unsigned interface, QueueKind kind, unsigned queue,
                                   uint32_t register_offset) override {
    const std::lock_guard lock(mutex_);
    return bus_->doorbell_word(interface, kind, queue, register_offset);
  }
  bool needs_run() const override { return bus_->needs_run(); }
  void run() override { bus_->run(); }
  bool outlives_driver() const override { return bus_->outlives_driver(); }
  bool uses_virtual_addresses() const override { return bus_->uses_virtual_addresses(); }
  int map_memory(void* address, size_t bytes, int fd, uint64_t fd_offset) override {
    const std::lock_guard lock(mutex_);
    return bus_->map_memory(address, bytes, fd, fd_offset);
  }
  int unmap_memory(void* address, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    return bus_->unmap_memory(address, bytes);
  }
  unsigned interrupt_count() const override { return bus_->interrupt_count(); }
  int set_interrupt(unsigned number, int event_fd) override {
    const std::lock_guard lock(mutex_);
    return bus_->set_interrupt(number, event_fd);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Bus> bus_;
};

class CardDevice {
 public:
  /// Stops the card, reads its description, and lets it use DPDK's memory.
  static Failure open(std::unique_ptr<Bus> bus, std::shared_ptr<CardDevice>& out);
  ~CardDevice();
  CardDevice(const CardDevice&) = delete;
  CardDevice& operator=(const CardDevice&) = delete;

  GuardedBus& bus() { return bus_; }
  const CardDescription& description() const { return description_; }
  std::unique_ptr<PtpClock>& clock() { return clock_; }
  std::mutex& clock_mutex() { return clock_mutex_; }
  /// The seconds of the card's clock when it was last read, which complete the 16 bits in timestamps.
  uint64_t reference_seconds() const { return reference_seconds_.load(std::memory_order_relaxed); }
  /// Reads the whole time of the clock. False when there is no clock.
  bool read_clock(TimeOfDay& out);

  /// Checks whether the card answers. The first call that finds that it does not informs all ports: from then on their
  /// bursts return nothing, and the application gets one RTE_ETH_EVENT_INTR_RMV for each, from EAL's interrupt thread.
  bool check_removed();
  bool is_removed() const { return removed_.load(std::memory_order_relaxed); }

  /// Sets the frame size that a port needs. The ports of an interface share one register, which gets the largest. 0:
  /// this port needs none.
  void want_rx_frames(unsigned interface, unsigned port, uint32_t bytes);

  HeldPackets& held() { return held_; }

  void add_port(uint16_t port_id);
  /// Returns how many ports are left.
  size_t remove_port(uint16_t port_id);

  /// Maps memory that DPDK does not manage (rte_dev_dma_map).
  int map_memory(void* address, size_t bytes);
  int unmap_memory(void* address, size_t bytes);

 private:
  explicit CardDevice(std::unique_ptr<Bus> bus);
  int map_all_memory();
  void on_removed();
  void notify_removed();
  static void on_removal_alarm(void* argument);
  static void on_watchdog_alarm(void* argument);

  GuardedBus bus_;
  CardDescription description_;
  std::unique_ptr<PtpClock> clock_;
  std::mutex clock_mutex_;
  std::atomic<uint64_t> reference_seconds_{0};
  std::atomic<bool> removed_{false};
  bool watched_ = false;
  bool memory_registered_ = false;
  std::mutex ports_mutex_;
  std::vector<uint16_t> ports_;
  std::vector<std::vector<uint32_t>> rx_frames_;  // by interface and port
  std::weak_ptr<CardDevice> self_;
  HeldPackets held_;
};

}  // namespace mqnic::ethdev
