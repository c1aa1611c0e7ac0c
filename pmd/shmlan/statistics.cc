#include "pmd/shmlan/statistics.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "pmd/shmlan/ops.h"

namespace uroce::shmlan {
namespace {

template <typename F>
void for_each_own_counter(const StationCounters& counters, F&& f) {
  f("rx_too_long", counters.rx_too_long);
  f("rx_no_mbufs", counters.rx_no_mbufs);
  f("tx_too_long", counters.tx_too_long);
  f("tx_too_short", counters.tx_too_short);
}

using Xstats = std::vector<std::pair<const char*, uint64_t>>;

Xstats list(const StationCounters& own, const segment::SegmentCounters& of_segment) {
  Xstats all;
  const auto add = [&](const char* name, uint64_t value) { all.emplace_back(name, value); };
  for_each_own_counter(own, add);
  for_each_counter(of_segment, add);
  return all;
}

/// The statistics since they were reset.
Xstats read_xstats(const Device& device) {
  Xstats now = list(device.station->counters(), device.station->segment_counters());
  const Xstats base = list(device.stats_base, device.xstats_base);
  for (size_t i = 0; i < now.size(); i++) now[i].second -= base[i].second;
  return now;
}

}  // namespace

int get_stats(rte_eth_dev* dev, rte_eth_stats* stats) {
  const Device& device = device_of(dev);
  const StationCounters now = device.station->counters();
  const StationCounters& base = device.stats_base;
  stats->ipackets = stats->q_ipackets[0] = now.rx_packets - base.rx_packets;
  stats->ibytes = stats->q_ibytes[0] = now.rx_bytes - base.rx_bytes;
  stats->ierrors = stats->q_errors[0] = now.rx_too_long - base.rx_too_long;
  stats->rx_nombuf = now.rx_no_mbufs - base.rx_no_mbufs;
  stats->opackets = stats->q_opackets[0] = now.tx_packets - base.tx_packets;
  stats->obytes = stats->q_obytes[0] = now.tx_bytes - base.tx_bytes;
  stats->oerrors = now.tx_too_long - base.tx_too_long + now.tx_too_short - base.tx_too_short;
  return 0;
}

int reset_stats(rte_eth_dev* dev) {
  Device& device = device_of(dev);
  device.stats_base = device.station->counters();
  device.xstats_base = device.station->segment_counters();
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

}  // namespace uroce::shmlan
