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
  add(all.rx, port.rx_retired);
  add(all.tx, port.tx_retired);
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
constexpr unsigned kXstats = kRxCounters - kRxFirst + kTxCounters - kTxFirst;

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
  port.rx_retired = {};
  port.tx_retired = {};
  dev->data->rx_mbuf_alloc_failed = 0;
  for (unsigned q = 0; q < dev->data->nb_rx_queues; ++q) {
    if (RxQueue* queue = port.rx_queue(q)) queue->counters.base = queue->counters.now;
  }
  for (unsigned q = 0; q < dev->data->nb_tx_queues; ++q) {
    if (TxQueue* queue = port.tx_queue(q)) queue->counters.base = queue->counters.now;
  }
  return 0;
}

int get_xstats_names(rte_eth_dev*, rte_eth_xstat_name* names, unsigned n) {
  if (names == nullptr || n < kXstats) return kXstats;
  unsigned at = 0;
  for (unsigned i = kRxFirst; i < kRxCounters; ++i)
    snprintf(names[at++].name, sizeof(names->name), "%s", kRxCounterNames[i]);
  for (unsigned i = kTxFirst; i < kTxCounters; ++i)
    snprintf(names[at++].name, sizeof(names->name), "%s", kTxCounterNames[i]);
  return kXstats;
}

int get_xstats(rte_eth_dev* dev, rte_eth_xstat* values, unsigned n) {
  if (values == nullptr || n < kXstats) return kXstats;
  const Totals all = total(port_of(dev));
  unsigned at = 0;
  for (unsigned i = kRxFirst; i < kRxCounters; ++i, ++at) values[at] = {at, all.rx[i]};
  for (unsigned i = kTxFirst; i < kTxCounters; ++i, ++at) values[at] = {at, all.tx[i]};
  return kXstats;
}

}  // namespace mqnic::ethdev
