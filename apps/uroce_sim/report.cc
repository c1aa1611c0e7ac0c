// Prints the report of a run.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "scene.h"

namespace uroce::simulate {

namespace {

constexpr uint64_t kSizes[] = {20'000, 50'000, 200'000, 1'000'000, 5'000'000, UINT64_MAX};

std::string size_name(uint64_t bytes) {
  if (bytes == UINT64_MAX) return "more";
  if (bytes >= 1'000'000) return "<= " + std::to_string(bytes / 1'000'000) + " MB";
  return "<= " + std::to_string(bytes / 1000) + " kB";
}

void print_slowdowns(Scene& scene) {
  std::vector<double> all;
  std::vector<double> of_size[std::size(kSizes)];
  for (const sim::FlowRecord& flow : scene.runner().flows()) {
    if (!flow.finished() || !flow.sized()) continue;
    size_t size = 0;
    while (flow.spec.bytes > kSizes[size]) size++;
    of_size[size].push_back(flow.slowdown());
    all.push_back(flow.slowdown());
  }
  if (all.empty()) return;
  std::printf("\nflows         count   slowdown: mean    p50      p95      p99      max\n");
  const auto row = [](const std::string& name, std::vector<double>& values) {
    if (values.empty()) return;
    double sum = 0;
    for (const double value : values) sum += value;
    std::printf("%-10s %8zu        %8.2f %8.2f %8.2f %8.2f %8.2f\n", name.c_str(), values.size(),
                sum / static_cast<double>(values.size()), sim::percentile(values, 50), sim::percentile(values, 95),
                sim::percentile(values, 99), sim::percentile(values, 100));
  };
  for (size_t i = 0; i < std::size(kSizes); i++) row(size_name(kSizes[i]), of_size[i]);
  row("all", all);
}

void print_hosts(Scene& scene) {
  Counters sum;
  uint64_t pauses = 0;
  int64_t paused_ns = 0;
  for (uint32_t i = 0; i < scene.network().host_count(); i++) {
    const Counters& counters = scene.network().host(i).engine().counters();
#define UROCE_COUNTER_ADD(name) sum.name += counters.name;
    UROCE_COUNTERS(UROCE_COUNTER_ADD)
#undef UROCE_COUNTER_ADD
  }
  for (const sim::Network::Direction& it : scene.network().directions()) {
    if (scene.network().find_host(it.name.substr(0, it.name.find('>'))) == scene.network().host_count()) continue;
    pauses += it.pauses;
    paused_ns += it.paused.ns;
  }
  const sim::NetworkTotals totals = sim::totals_of(scene.network());
  std::printf("\nhosts    ");
  for_each_counter(sum, [column = 0](const char* name, uint64_t value) mutable {
    if (value == 0) return;
    std::printf("%s%s %" PRIu64, column % 4 == 0 && column != 0 ? "\n         " : column != 0 ? ", " : "", name, value);
    column++;
  });
  std::printf("\n         paused %" PRIu64 " times, for %.3f ms in all\n", pauses,
              static_cast<double>(paused_ns) / 1e6);
  if (totals.host_pauses != 0) std::printf("         paused their switches %" PRIu64 " times\n", totals.host_pauses);
  if (totals.nic_dropped != 0) std::printf("         receive queues dropped %" PRIu64 "\n", totals.nic_dropped);
}

void print_switches(Scene& scene) {
  const sim::NetworkTotals totals = sim::totals_of(scene.network());
  std::printf("switches %" PRIu64 " marked, %" PRIu64 " dropped, %" PRIu64 " pauses, longest queue %.1f kB",
              totals.ecn_marked, totals.dropped, totals.pauses_sent, static_cast<double>(totals.max_queue_bytes) / 1e3);
  if (totals.watchdog_fired != 0) std::printf(", watchdog fired %" PRIu64 " times", totals.watchdog_fired);
  std::printf("\n");
  uint64_t reasons[fabric::kDropCount] = {};
  for (const sim::SimSwitch* node : scene.network().switches()) {
    for (fabric::PortId port = 0; port < node->fabric().port_count(); port++) {
      for (unsigned i = 0; i < fabric::kDropCount; i++) reasons[i] += node->fabric().counters(port).drops[i];
    }
  }
  for (unsigned i = 0; i < fabric::kDropCount; i++) {
    if (reasons[i] != 0) {
      std::printf("         dropped %s %" PRIu64 "\n", fabric::drop_name(static_cast<fabric::Drop>(i)), reasons[i]);
    }
  }
}

/// Prints how far pauses have spread.
void print_pauses(Scene& scene) {
  const char* head = "pauses  ";
  const auto run = static_cast<double>(std::max<int64_t>(scene.virtual_time().ns, 1));
  for (const sim::Network::Direction& it : scene.network().directions()) {
    if (it.pauses == 0 && it.paused.ns == 0) continue;
    std::printf("%s %-20s %8" PRIu64 " times, %.3f ms, %.1f %% of the time\n", head, it.name.c_str(), it.pauses,
                static_cast<double>(it.paused.ns) / 1e6, 100 * static_cast<double>(it.paused.ns) / run);
    head = "        ";
  }
}

void print_cables(Scene& scene) {
  fabric::ImpairmentCounters sum;
  for (uint32_t i = 0; i < scene.network().topology().links.size(); i++) {
    const sim::Cable& cable = scene.network().cable(i);
    for (const sim::Link* link : {cable.a_to_b, cable.b_to_a}) {
      const fabric::ImpairmentCounters& faults = link->faults();
      sum.lost += faults.lost + faults.lost_in_burst + faults.lost_while_down + faults.dropped_by_rule;
      sum.corrupted += faults.corrupted + faults.corrupted_by_rule;
      sum.duplicated += faults.duplicated + faults.duplicated_by_rule;
      sum.reordered += faults.reordered + faults.delayed_by_rule;
      sum.pauses_injected += faults.pauses_injected;
    }
  }
  if (sum.lost + sum.corrupted + sum.duplicated + sum.reordered + sum.pauses_injected == 0) return;
  std::printf("cables   %" PRIu64 " lost, %" PRIu64 " corrupted, %" PRIu64 " duplicated, %" PRIu64
              " reordered, %" PRIu64 " pause frames injected\n",
              sum.lost, sum.corrupted, sum.duplicated, sum.reordered, sum.pauses_injected);
}

}  // namespace

void print_report(Scene& scene) {
  const Options& options = scene.options();
  sim::FlowRunner& runner = scene.runner();
  const SampleSummary& samples = scene.samples();
  std::printf("%s, %u hosts, %zu switches; %s; seed %" PRIu64 "\n",
              options.topology_file.empty() ? options.topology.c_str() : options.topology_file.c_str(),
              scene.network().host_count(), scene.network().switches().size(), options.workload.c_str(), options.seed);
  std::printf("flows    %zu begun, %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " still running, on %" PRIu64
              " queue pairs\n",
              runner.flows().size(), runner.finished(), runner.failed(), runner.active(), runner.queue_pairs());
  if (!runner.first_failure().empty()) std::printf("         first failure: %s\n", runner.first_failure().c_str());
  const double seconds = static_cast<double>(scene.virtual_time().ns) / 1e9;
  std::printf("payload  %.3f MB delivered, %.2f Gb/s in all\n", static_cast<double>(runner.arrived_bytes()) / 1e6,
              static_cast<double>(runner.arrived_bytes()) * 8 / seconds / 1e9);
  if (samples.jain_samples != 0) {
    std::printf("fairness Jain's index %.4f at the end, %.4f on average\n", samples.last_jain,
                samples.jain_sum / static_cast<double>(samples.jain_samples));
  }
  if (samples.samples != 0) {
    std::printf("queues   %.1f kB on average in all switches, %.1f kB at most\n",
                samples.queued_sum / static_cast<double>(samples.samples) / 1e3,
                static_cast<double>(samples.max_queued) / 1e3);
  }
  print_slowdowns(scene);
  print_hosts(scene);
  print_switches(scene);
  if (options.pauses) print_pauses(scene);
  print_cables(scene);
  const uint64_t events = scene.network().world().events().handled();
  std::printf("run      %.3f ms of virtual time in %.2f s of the processor's, %" PRIu64 " events (%.2f M/s), %" PRIu64
              " frames over cables\nhash     %016" PRIx64 "\n",
              seconds * 1e3, scene.cpu_seconds(), events,
              static_cast<double>(events) / std::max(scene.cpu_seconds(), 1e-6) / 1e6, scene.frames(), scene.hash());
}

}  // namespace uroce::simulate
