// Statistics. The card counts nothing itself.
#include "pmd/ethdev/statistics.h"

#include <algorithm>
#include <cstdio>

#include "pmd/ethdev/port.h"

namespace mqnic::ethdev {

namespace {

template <size_t kCount>
void add(std::array<uint64_t, kCount>& total, const Counters<kCount>& counters) {
  for (unsigned i = 0; i < kCount; ++i) total[i] += counters.value(i);
}

struct Totals {
  std::array<uint64_t, kRxCounters> rx{};
  std::array<uint64_t, kTxCounters> tx{};
};

Totals total(const Port& port) {
  Totals all;
  add(all.rx, port.retired.rx);
  add(all.tx, port.retired.tx);
  for (unsigned q = 0; q < port.dev->data->nb_rx_queues; ++q) {
    if (port.rx_queue(q) != nullptr) add(all.rx, port.rx_queue(q)->counters);
  }
  for (unsigned q = 0; q < port.dev->data->nb_tx_queues; ++q) {
    if (port.tx_queue(q) != nullptr) add(all.tx, port.tx_queue(q)->counters);
  }
  return all;
}

template <size_t kCount>
uint64_t rx_errors(const std::array<uint64_t, kCount>& rx) {
  return rx[kRxZeroLength] + rx[kRxOversize] + rx[kRxClamped] + rx[kRxForeignQueue] + rx[kRxWrongIndex];
}

template <size_t kCount>
uint64_t tx_errors(const std::array<uint64_t, kCount>& tx) {
  return tx[kTxZeroLength] + tx[kTxOversize] + tx[kTxTooManyPieces] + tx[kTxBadOffload];
}

// The first two of each direction are basic statistics, which ethdev names itself.
constexpr unsigned kRxFirst = kRxZeroLength, kTxFirst = kTxZeroLength;

/// Calls `visit(name, value)` for each extended statistic: the port's sums, then all counters of each queue. `queue` is
/// -1 for the sums.
template <typename Visit>
void each_xstat(const Port& port, Visit visit) {
  const Totals all = total(port);
  for (unsigned i = kRxFirst; i < kRxCounters; ++i) visit(-1, kRxCounterNames[i], all.rx[i]);
  for (unsigned i = kTxFirst; i < kTxCounters; ++i) visit(-1, kTxCounterNames[i], all.tx[i]);
  for (int q = 0; q < port.dev->data->nb_rx_queues; ++q) {
    const RxQueue* queue = port.rx_queue(static_cast<unsigned>(q));
    for (unsigned i = 0; i < kRxCounters; ++i)
      visit(q, kRxCounterNames[i], queue == nullptr ? 0 : queue->counters.value(i));
  }
  for (int q = 0; q < port.dev->data->nb_tx_queues; ++q) {
    const TxQueue* queue = port.tx_queue(static_cast<unsigned>(q));
    for (unsigned i = 0; i < kTxCounters; ++i)
      visit(q, kTxCounterNames[i], queue == nullptr ? 0 : queue->counters.value(i));
  }
}

unsigned count_xstats(const Port& port) {
  return kRxCounters - kRxFirst + kTxCounters - kTxFirst + kRxCounters * port.dev->data->nb_rx_queues +
         kTxCounters * port.dev->data->nb_tx_queues;
}

}  // namespace

void retire(Counters<kRxCounters>& all, const Counters<kRxCounters>& counters) { add(all.now, counters); }
void retire(Counters<kTxCounters>& all, const Counters<kTxCounters>& counters) { add(all.now, counters); }

int get_stats(rte_eth_dev* dev, rte_eth_stats* stats) {
  const Port& port = port_of(dev);
  port.card->check_removed();
  const Totals all = total(port);
  stats->ipackets = all.rx[kRxPackets];
  stats->ibytes = all.rx[kRxBytes];
  stats->ierrors = rx_errors(all.rx);
  stats->rx_nombuf = dev->data->rx_mbuf_alloc_failed;
  stats->opackets = all.tx[kTxPackets];
  stats->obytes = all.tx[kTxBytes];
  stats->oerrors = tx_errors(all.tx);
  for (unsigned q = 0; q < std::min<unsigned>(dev->data->nb_rx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS); ++q) {
    if (port.rx_queue(q) == nullptr) continue;
    std::array<uint64_t, kRxCounters> rx{};
    add(rx, port.rx_queue(q)->counters);
    stats->q_ipackets[q] = rx[kRxPackets];
    stats->q_ibytes[q] = rx[kRxBytes];
    stats->q_errors[q] = rx_errors(rx);
  }
  for (unsigned q = 0; q < std::min<unsigned>(dev->data->nb_tx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS); ++q) {
    if (port.tx_queue(q) == nullptr) continue;
    stats->q_opackets[q] = port.tx_queue(q)->counters.value(kTxPackets);
    stats->q_obytes[q] = port.tx_queue(q)->counters.value(kTxBytes);
  }
  return 0;
}

int reset_stats(rte_eth_dev* dev) {
  Port& port = port_of(dev);
  port.retired.rx = {};
  port.retired.tx = {};
  dev->data->rx_mbuf_alloc_failed = 0;
  for (unsigned q = 0; q < dev->data->nb_rx_queues; ++q) {
    if (RxQueue* queue = port.rx_queue(q)) queue->counters.base = queue->counters.now;
  }
  for (unsigned q = 0; q < dev->data->nb_tx_queues; ++q) {
    if (TxQueue* queue = port.tx_queue(q)) queue->counters.base = queue->counters.now;
  }
  return 0;
}

int get_xstats_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned n) {
  const Port& port = port_of(dev);
  const unsigned count = count_xstats(port);
  if (names == nullptr || n < count) return static_cast<int>(count);
  unsigned at = 0;
  each_xstat(port, [&](int queue, const char* name, uint64_t) {
    char* out = names[at++].name;
    if (queue < 0) {
      snprintf(out, sizeof(names->name), "%s", name);
    } else {
      snprintf(out, sizeof(names->name), "%.2s_q%d%s", name, queue, name + 2);  // rx_q3_packets, as ethdev spells it
    }
  });
  return static_cast<int>(count);
}

int get_xstats(rte_eth_dev* dev, rte_eth_xstat* values, unsigned n) {
  const Port& port = port_of(dev);
  const unsigned count = count_xstats(port);
  if (values == nullptr || n < count) return static_cast<int>(count);
  unsigned at = 0;
  each_xstat(port, [&](int, const char*, uint64_t value) {
    values[at] = {at, value};
    ++at;
  });
  return static_cast<int>(count);
}

}  // namespace mqnic::ethdev
