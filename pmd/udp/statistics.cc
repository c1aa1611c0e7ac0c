#include "pmd/udp/statistics.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "pmd/udp/ops.h"

namespace uroce::udp {
namespace {

using Xstats = std::vector<std::pair<const char*, uint64_t>>;

Xstats list(const PortCounters& counters) {
  return {{"rx_messages", counters.rx_messages},          {"rx_too_long", counters.rx_too_long},
          {"rx_no_mbufs", counters.rx_no_mbufs},          {"rx_foreign_ids", counters.rx_foreign_ids},
          {"rx_bad_icrc", counters.rx_bad_icrc},          {"rx_kernel_dropped", counters.rx_kernel_dropped},
          {"tx_messages", counters.tx.tx_messages},       {"tx_too_long", counters.tx.tx_too_long},
          {"tx_unreachable", counters.tx.tx_unreachable}, {"tx_waits", counters.tx.tx_waits},
          {"tx_no_address", counters.tx_no_address},      {"tx_not_ours", counters.tx_not_ours},
          {"tx_not_roce", counters.tx_not_roce},          {"neighbour_answers", counters.neighbour_answers}};
}

/// Since they were reset.
Xstats read_xstats(const Device& device) {
  Xstats now = list(device.port->counters());
  const Xstats base = list(device.base);
  for (size_t i = 0; i < now.size(); i++) now[i].second -= base[i].second;
  return now;
}

}  // namespace

int get_stats(rte_eth_dev* dev, rte_eth_stats* stats) {
  const Device& device = device_of(dev);
  const PortCounters now = device.port->counters();
  const PortCounters& base = device.base;
  stats->ipackets = stats->q_ipackets[0] = now.rx_packets - base.rx_packets;
  stats->ibytes = stats->q_ibytes[0] = now.rx_bytes - base.rx_bytes;
  stats->imissed = now.rx_kernel_dropped - base.rx_kernel_dropped;
  stats->ierrors = stats->q_errors[0] = now.rx_too_long - base.rx_too_long;
  stats->rx_nombuf = now.rx_no_mbufs - base.rx_no_mbufs;
  stats->opackets = stats->q_opackets[0] = now.tx.tx_packets - base.tx.tx_packets;
  stats->obytes = stats->q_obytes[0] = now.tx.tx_bytes - base.tx.tx_bytes;
  stats->oerrors = now.tx.tx_too_long - base.tx.tx_too_long + now.tx.tx_unreachable - base.tx.tx_unreachable +
                   now.tx_no_address - base.tx_no_address + now.tx_not_ours - base.tx_not_ours;
  return 0;
}

int reset_stats(rte_eth_dev* dev) {
  Device& device = device_of(dev);
  device.base = device.port->counters();
  return 0;
}

int get_xstats(rte_eth_dev* dev, rte_eth_xstat* values, unsigned count) {
  const Xstats all = read_xstats(device_of(dev));
  const auto total = static_cast<unsigned>(all.size());
  if (values == nullptr || count < total) return static_cast<int>(total);
  for (unsigned i = 0; i < total; i++) values[i] = {i, all[i].second};
  return static_cast<int>(total);
}

int get_xstats_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count) {
  const Xstats all = read_xstats(device_of(dev));
  const auto total = static_cast<unsigned>(all.size());
  if (names == nullptr || count < total) return static_cast<int>(total);
  for (unsigned i = 0; i < total; i++) std::snprintf(names[i].name, sizeof names[i].name, "%s", all[i].first);
  return static_cast<int>(total);
}

}  // namespace uroce::udp
