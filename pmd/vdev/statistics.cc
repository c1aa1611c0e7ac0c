#include "pmd/vdev/statistics.h"

#include <cstdio>
#include <mutex>

#include "pmd/vdev/driver.h"

namespace uroce::vdev {

namespace {

Statistics base_of(const rte_eth_dev* dev) {
  const std::lock_guard lock(device_of(dev).base_mutex);
  return device_of(dev).base;
}

}  // namespace

int get_stats(rte_eth_dev* dev, rte_eth_stats* stats) {
  const Statistics now = device_of(dev).port->statistics();
  const Statistics base = base_of(dev);
  stats->ipackets = stats->q_ipackets[0] = now.rx_packets - base.rx_packets;
  stats->ibytes = stats->q_ibytes[0] = now.rx_bytes - base.rx_bytes;
  stats->imissed = now.rx_missed - base.rx_missed;
  stats->ierrors = stats->q_errors[0] = now.rx_errors - base.rx_errors;
  stats->rx_nombuf = now.rx_no_mbufs - base.rx_no_mbufs;
  stats->opackets = stats->q_opackets[0] = now.tx_packets - base.tx_packets;
  stats->obytes = stats->q_obytes[0] = now.tx_bytes - base.tx_bytes;
  stats->oerrors = now.tx_errors - base.tx_errors;
  return 0;
}

int reset_stats(rte_eth_dev* dev) {
  const Statistics now = device_of(dev).port->statistics();
  const std::lock_guard lock(device_of(dev).base_mutex);
  device_of(dev).base = now;
  return 0;
}

int get_xstats(rte_eth_dev* dev, rte_eth_xstat* values, unsigned count) {
  const auto now = device_of(dev).port->statistics().named;
  const NamedCounters base = base_of(dev).named;  // empty until the first reset
  const auto total = static_cast<unsigned>(now.size());
  if (values == nullptr || count < total) return static_cast<int>(total);
  for (unsigned i = 0; i < total; i++) values[i] = {i, now[i].second - (base.size() == 0 ? 0 : base[i].second)};
  return static_cast<int>(total);
}

int get_xstats_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count) {
  const auto all = device_of(dev).port->statistics().named;
  const auto total = static_cast<unsigned>(all.size());
  if (names == nullptr || count < total) return static_cast<int>(total);
  for (unsigned i = 0; i < total; i++) std::snprintf(names[i].name, sizeof names[i].name, "%s", all[i].first);
  return static_cast<int>(total);
}

}  // namespace uroce::vdev
