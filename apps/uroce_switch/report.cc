#include "report.h"

#include <cinttypes>

#include <rte_ethdev.h>

namespace uroce::netswitch {
namespace {

/// Prints what the port's driver lost by itself, before or after the switch.
void print_driver_losses(FILE* out, const SwitchLink& link) {
  rte_eth_stats stats{};
  const std::optional<uint16_t> id = link.port().dpdk_id();
  if (!id || rte_eth_stats_get(*id, &stats) != 0) return;
  const std::pair<const char*, uint64_t> losses[] = {{"missed", stats.imissed},
                                                     {"receive errors", stats.ierrors},
                                                     {"no memory", stats.rx_nombuf},
                                                     {"send errors", stats.oerrors}};
  for (const auto& [name, count] : losses) {
    if (count != 0) std::fprintf(out, "%4u  driver: %s %" PRIu64 "\n", link.config().id, name, count);
  }
}

bool is_detail(const std::string& name) {
  return name.rfind("drop_", 0) == 0 || name.rfind("in_", 0) == 0 || name.rfind("out_", 0) == 0 ||
         name.rfind("peers_", 0) == 0 || name.find("xoff_sent") != std::string::npos ||
         name.find("paused_ns") != std::string::npos || name.find("max_queue") != std::string::npos ||
         name == "ecn_not_capable" || name == "flooded";
}

}  // namespace

void print_table(FILE* out, const LiveSwitch& live) {
  std::fprintf(out, "%4s  %-24s %-5s %12s %15s %12s %15s %12s %10s\n", "port", "", "link", "rx frames", "rx bytes",
               "tx frames", "tx bytes", "ECN marked", "dropped");
  for (const auto& link : live.links()) {
    const fabric::SwitchPortCounters& c = live.fabric().counters(link->config().id);
    uint64_t dropped = 0;
    for_each_counter(*link, live.fabric(), [&](const std::string& name, uint64_t value) {
      if (name.rfind("drop_", 0) == 0) dropped += value;
    });
    std::fprintf(
        out, "%4u  %-24s %-5s %12" PRIu64 " %15" PRIu64 " %12" PRIu64 " %15" PRIu64 " %12" PRIu64 " %10" PRIu64 "\n",
        link->config().id, link->config().name.c_str(), link->up() ? "up" : "down", c.rx_frames, c.rx_bytes,
        c.tx_frames, c.tx_bytes, c.ecn_marked, dropped);
  }
  for (const auto& link : live.links()) {
    std::string line;
    for_each_counter(*link, live.fabric(), [&](const std::string& name, uint64_t value) {
      if (value != 0 && is_detail(name)) line += (line.empty() ? "" : ", ") + name + " " + std::to_string(value);
    });
    if (!line.empty()) std::fprintf(out, "%4u  %s\n", link->config().id, line.c_str());
    for (const bool in : {true, false}) {
      const fabric::Impairments& faults = in ? link->in_faults() : link->out_faults();
      if (!faults.active()) continue;
      std::fprintf(out, "%4u  faults %s: %s\n", link->config().id, in ? "in" : "out", to_text(faults.config()).c_str());
    }
    print_driver_losses(out, *link);
  }
  std::fflush(out);
}

}  // namespace uroce::netswitch
