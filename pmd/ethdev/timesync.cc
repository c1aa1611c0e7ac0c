// IEEE 1588: the card's clock, and the times at which packets passed it.
#include "pmd/ethdev/timesync.h"

#include <cerrno>

#include "pmd/ethdev/card_wait.h"
#include "pmd/ethdev/lifecycle.h"
#include "pmd/ethdev/log.h"
#include "pmd/ethdev/port.h"
#include "pmd/ethdev/tx_burst.h"

namespace mqnic::ethdev {

namespace {

int take_stamp(Port& port, StampSlot& slot, timespec* out) {
  uint16_t seconds = 0;
  uint32_t nanoseconds = 0;
  if (!slot.take(seconds, nanoseconds)) return -EINVAL;
  TimeOfDay now;
  if (!port.card->read_clock(now)) return -ENOTSUP;
  out->tv_sec = static_cast<time_t>(extend_seconds(seconds, now.seconds));
  out->tv_nsec = nanoseconds;
  return 0;
}

int set_timesync(rte_eth_dev* dev, bool on) {
  Port& port = port_of(dev);
  if (port.card->clock() == nullptr) return -ENOTSUP;
  port.timesync = on;
  for (unsigned q = 0; q < dev->data->nb_rx_queues; ++q) {
    if (RxQueue* queue = port.rx_queue(q)) queue->timesync = on;
  }
  for (unsigned q = 0; q < dev->data->nb_tx_queues; ++q) {
    if (TxQueue* queue = port.tx_queue(q)) queue->timesync = on;
  }
  if (dev->data->dev_started != 0) choose_bursts(port);
  return 0;
}

/// Waits until the clock has applied what was asked of it before. 0 or a negative errno.
int wait_for_clock(Port& port) {
  const PtpClock& clock = *port.card->clock();
  if (wait_for_card(port, kStubbornMs, [&] { return !clock.pending(); })) {
    return port.card->check_removed() ? -ENODEV : 0;
  }
  if (port.card->check_removed()) return -ENODEV;
  MQNIC_LOG(ERR, "%s: the card's clock has not applied its last change after %u ms", port.name(), kStubbornMs);
  return -EBUSY;
}

/// Changes the clock when nothing is pending, and waits until it is changed.
template <typename Change>
int change_clock(rte_eth_dev* dev, Change change) {
  Port& port = port_of(dev);
  if (port.card->clock() == nullptr) return -ENOTSUP;
  {
    const std::lock_guard lock(port.card->clock_mutex());
    if (const int rc = wait_for_clock(port); rc != 0) return rc;
    change(*port.card->clock());
    if (const int rc = wait_for_clock(port); rc != 0) return rc;
  }
  TimeOfDay now;
  port.card->read_clock(now);
  return 0;
}

}  // namespace

int enable_timesync(rte_eth_dev* dev) {
  Port& port = port_of(dev);
  uint16_t seconds = 0;
  uint32_t nanoseconds = 0;
  port.rx_timestamp.take(seconds, nanoseconds);
  port.tx_timestamp.take(seconds, nanoseconds);
  return set_timesync(dev, true);
}

int disable_timesync(rte_eth_dev* dev) { return set_timesync(dev, false); }

int read_rx_timestamp(rte_eth_dev* dev, timespec* out, uint32_t) {
  Port& port = port_of(dev);
  return take_stamp(port, port.rx_timestamp, out);
}

int read_tx_timestamp(rte_eth_dev* dev, timespec* out) {
  Port& port = port_of(dev);
  if (port.bus().needs_run()) port.bus().run();
  for (unsigned q = 0; q < dev->data->nb_tx_queues; ++q) {
    TxQueue* queue = port.tx_queue(q);
    // The application sends nothing while it waits for the time of what it sent.
    if (queue != nullptr && queue->running.load(std::memory_order_acquire)) reap(*queue, queue->entries);
  }
  return take_stamp(port, port.tx_timestamp, out);
}

int adjust_time(rte_eth_dev* dev, int64_t nanoseconds) {
  return change_clock(dev, [=](PtpClock& clock) { clock.adjust(nanoseconds); });
}

int read_time(rte_eth_dev* dev, timespec* out) {
  TimeOfDay now;
  if (!port_of(dev).card->read_clock(now)) return -ENOTSUP;
  out->tv_sec = static_cast<time_t>(now.seconds);
  out->tv_nsec = now.nanoseconds;
  return 0;
}

int write_time(rte_eth_dev* dev, const timespec* in) {
  if (in->tv_sec < 0 || in->tv_nsec < 0 || in->tv_nsec >= static_cast<long>(kNanosecondsPerSecond)) return -EINVAL;
  const TimeOfDay time{static_cast<uint64_t>(in->tv_sec), static_cast<uint32_t>(in->tv_nsec)};
  return change_clock(dev, [&](PtpClock& clock) { clock.set_time(time); });
}

int read_clock(rte_eth_dev* dev, uint64_t* out) {
  TimeOfDay now;
  if (!port_of(dev).card->read_clock(now)) return -ENOTSUP;
  *out = now.seconds * kNanosecondsPerSecond + now.nanoseconds;
  return 0;
}

}  // namespace mqnic::ethdev
