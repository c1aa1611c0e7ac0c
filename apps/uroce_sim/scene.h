// One run: a network, its workload, and everything that watches it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files.h"
#include "options.h"
#include "sim/flow_runner.h"
#include "sim/network.h"
#include "sim/sampler.h"
#include "sim/trace_hash.h"
#include "sim/workload.h"

namespace uroce::simulate {

/// The sums over all samples.
struct SampleSummary {
  uint64_t samples = 0;
  double jain_sum = 0;  // over samples with at least two flows
  uint64_t jain_samples = 0;
  double last_jain = 1;
  double queued_sum = 0;
  uint64_t max_queued = 0;
};

class Scene final : public sim::SampleSink, public sim::LinkTap {
 public:
  explicit Scene(const Options& options) : options_(options) {}

  /// Returns an empty string, or why the run cannot begin.
  std::string prepare();
  void run();
  /// Returns an empty string, or what could not be written.
  std::string finish();

  sim::Network& network() { return *network_; }
  sim::FlowRunner& runner() { return *runner_; }
  const Options& options() const { return options_; }
  const SampleSummary& samples() const { return samples_; }
  uint64_t hash() const { return hash_.value(); }
  uint64_t frames() const { return hash_.frames(); }
  Duration virtual_time() const { return ended_ - start_; }
  double cpu_seconds() const { return cpu_seconds_; }
  /// True when all flows that can end have ended.
  bool complete() const { return complete_; }

 private:
  std::string make_network();
  std::string set_faults();
  std::string set_flow_control(sim::NetworkConfig& config) const;
  std::string open_files();
  std::string open_captures();
  uint32_t window() const;
  void write_flows();
  void write_cables();

  void on_queue(Instant now, const sim::Network::Egress& egress, uint64_t bytes) override;
  void on_rate(Instant now, const sim::FlowRecord& flow, double bits_per_second) override;
  void on_sample(Instant now, const sim::NetworkTotals& totals, uint64_t measured, double bits_per_second,
                 double jain) override;
  void on_departure(uint32_t link, Instant now, std::span<const uint8_t> frame) override;
  void on_arrival(uint32_t link, Instant now, std::span<const uint8_t> frame) override;
  double microseconds_since_start(Instant now) const { return static_cast<double>((now - start_).ns) / 1e3; }

  Options options_;
  sim::Topology topology_;
  std::unique_ptr<sim::Network> network_;
  std::unique_ptr<sim::Workload> workload_;
  std::unique_ptr<sim::FlowRunner> runner_;
  std::unique_ptr<sim::Sampler> sampler_;
  sim::TraceHash hash_;
  SampleSummary samples_;
  std::vector<std::unique_ptr<PcapngFile>> captures_;  // by cable; nullptr: not captured
  OutputFile flows_csv_, queues_csv_, rates_csv_, samples_csv_, cables_csv_;
  Instant start_, ended_;
  double cpu_seconds_ = 0;
  bool complete_ = false;
};

/// Prints the text table of a finished run.
void print_report(Scene& scene);

}  // namespace uroce::simulate
