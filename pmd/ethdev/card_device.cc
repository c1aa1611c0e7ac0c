#include "pmd/ethdev/card_device.h"

#include <rte_alarm.h>
#include <rte_cycles.h>

#include <algorithm>
#include <cerrno>

#include "pmd/ethdev/dma_memory.h"
#include "pmd/ethdev/dpdk_driver.h"
#include "pmd/ethdev/lifecycle.h"
#include "pmd/ethdev/log.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/timesync.h"
#include "pmd/hw/control.h"
#include "pmd/hw/registers.h"

namespace mqnic::ethdev {

namespace {
constexpr uint64_t kWatchdogUs = 1000000;
}

CardDevice::CardDevice(std::unique_ptr<Bus> bus) : bus_(std::move(bus)) {}

Failure CardDevice::open(std::unique_ptr<Bus> bus, std::shared_ptr<CardDevice>& out) {
  std::shared_ptr<CardDevice> card(new CardDevice(std::move(bus)));
  card->self_ = card;
  if (Failure f = describe_card(card->bus_, card->description_)) return f;
  for (const InterfaceDescription& interface : card->description_.interfaces) quiesce(card->bus_, interface);
  if (card->bus_.needs_run()) {
    card->bus_.run();
  } else {
    rte_delay_us_sleep(kSettleMs * 1000);
  }
  for (const InterfaceDescription& interface : card->description_.interfaces) close_ports(card->bus_, interface);
  read_block_sizes(card->bus_, card->description_);
  for (const std::string& note : card->description_.notes) MQNIC_LOG(NOTICE, "%s", note.c_str());
  if (card->description_.ptp) card->clock_ = std::make_unique<PtpClock>(card->bus_, *card->description_.ptp);
  TimeOfDay now;
  card->read_clock(now);
  if (card->bus_.uses_virtual_addresses()) {
    const int rc = card->map_all_memory();
    if (rc != 0) {
      return failure(rc, "%s: the card cannot use DPDK's memory: %s", card->bus_.name().c_str(), strerror(-rc));
    }
  }
  // A card in this process does not go away by itself.
  if (!card->bus_.needs_run()) {
    card->watched_ = rte_eal_alarm_set(kWatchdogUs, on_watchdog_alarm, card.get()) == 0;
  }
  out = std::move(card);
  return {};
}

CardDevice::~CardDevice() {
  if (watched_) rte_eal_alarm_cancel(on_watchdog_alarm, this);
  if (memory_registered_) stop_following_memory(this);
  if (!bus_.outlives_driver() || is_removed()) {
    held_.give_back();
  } else if (const size_t count = held_.count(); count != 0) {
    MQNIC_LOG(WARNING, "%s: %zu buffers are never given back: the card may still read them", bus_.name().c_str(),
              count);
  }
}

int CardDevice::map_all_memory() {
  memory_registered_ = true;
  return follow_memory(this, bus_);
}

int CardDevice::map_memory(void* address, size_t bytes) {
  return bus_.uses_virtual_addresses() ? bus_.map_memory(address, bytes, -1, 0) : 0;
}

int CardDevice::unmap_memory(void* address, size_t bytes) {
  return bus_.uses_virtual_addresses() ? bus_.unmap_memory(address, bytes) : 0;
}

bool CardDevice::read_clock(TimeOfDay& out) {
  if (clock_ == nullptr) return false;
  {
    const std::lock_guard lock(clock_mutex_);
    out = clock_->time();
  }
  reference_seconds_.store(out.seconds, std::memory_order_relaxed);
  return true;
}

bool CardDevice::check_removed() {
  if (is_removed()) return true;
  if (bus_.read32(kBlockVersion) != kAllOnes) return false;
  if (!removed_.exchange(true)) on_removed();
  return true;
}

void CardDevice::on_removed() {
  MQNIC_LOG(ERR, "%s: the card is gone: all-ones at 0x%x", bus_.name().c_str(), kBlockVersion);
  {
    const std::lock_guard lock(ports_mutex_);
    for (const uint16_t id : ports_) stop_bursts(rte_eth_devices[id]);
  }
  // The application is not called from here: it may close the port in its callback, while a call of its own is still
  // under way here.
  auto* weak = new std::weak_ptr<CardDevice>(self_);
  if (rte_eal_alarm_set(1, on_removal_alarm, weak) != 0) delete weak;
}

void CardDevice::on_removal_alarm(void* argument) {
  const std::unique_ptr<std::weak_ptr<CardDevice>> weak(static_cast<std::weak_ptr<CardDevice>*>(argument));
  if (const std::shared_ptr<CardDevice> card = weak->lock()) card->notify_removed();
}

void CardDevice::notify_removed() {
  std::vector<uint16_t> ports;
  {
    const std::lock_guard lock(ports_mutex_);
    ports = ports_;
  }
  for (const uint16_t id : ports) {
    if (rte_eth_dev_is_valid_port(id) != 0) {
      rte_eth_dev_callback_process(&rte_eth_devices[id], RTE_ETH_EVENT_INTR_RMV, nullptr);
    }
  }
}

void CardDevice::on_watchdog_alarm(void* argument) {
  auto* card = static_cast<CardDevice*>(argument);
  TimeOfDay now;
  if (card->check_removed()) return;
  card->read_clock(now);
  rte_eal_alarm_set(kWatchdogUs, on_watchdog_alarm, card);
}

void CardDevice::want_rx_frames(unsigned interface, unsigned port, uint32_t bytes) {
  const std::lock_guard lock(ports_mutex_);
  rx_frames_.resize(description_.interfaces.size());
  std::vector<uint32_t>& wanted = rx_frames_[interface];
  wanted.resize(description_.interfaces[interface].ports.size());
  wanted[port] = bytes;
  const uint32_t largest = *std::max_element(wanted.begin(), wanted.end());
  if (largest != 0) set_rx_frame_bytes(bus_, description_.interfaces[interface], largest);
}

void CardDevice::add_port(uint16_t port_id) {
  const std::lock_guard lock(ports_mutex_);
  ports_.push_back(port_id);
}

size_t CardDevice::remove_port(uint16_t port_id) {
  const std::lock_guard lock(ports_mutex_);
  ports_.erase(std::remove(ports_.begin(), ports_.end(), port_id), ports_.end());
  return ports_.size();
}

}  // namespace mqnic::ethdev
