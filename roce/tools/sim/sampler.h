// Looks at a running network at regular instants: at queues every time, and at rates and fairness every tenth time,
// because packets come in bursts and a rate over a few of them says nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/actor.h"
#include "sim/flow_runner.h"
#include "sim/network.h"

namespace uroce::sim {

struct NetworkTotals {
  uint64_t queued_bytes = 0;
  uint64_t max_queue_bytes = 0;  // of the longest queue of a port, with all priorities
  uint64_t ecn_marked = 0;
  uint64_t dropped = 0;
  uint64_t pauses_sent = 0;  // times that a switch stopped a priority
  uint64_t host_pauses = 0;  // times that a host stopped its switch
  uint64_t nic_dropped = 0;  // because the receive queue of a host was full
  uint64_t watchdog_fired = 0;
};
NetworkTotals totals_of(Network& network);

/// Receives the samples.
class SampleSink {
 public:
  virtual ~SampleSink() = default;
  /// Called for a switch's port whose queue is not empty, or was not empty at the last sample.
  virtual void on_queue(Instant /*now*/, const Network::Egress& /*egress*/, uint64_t /*bytes*/) {}
  /// Called for a flow that has been running since the last time, with the rate at which payload has arrived since
  /// then.
  virtual void on_rate(Instant /*now*/, const FlowRecord& /*flow*/, double /*bits_per_second*/) {}
  /// Called as often as on_rate, for everything together. `measured` is the number of flows for which on_rate was
  /// called; `bits_per_second` is the sum of their rates, and `jain` Jain's index over them.
  virtual void on_sample(Instant /*now*/, const NetworkTotals& /*totals*/, uint64_t /*measured*/,
                         double /*bits_per_second*/, double /*jain*/) {}
};

class Sampler final : public Actor<Sampler> {
 public:
  struct Event {};  // there is only one: the next sample is due

  Sampler(Network& network, FlowRunner& runner, SampleSink& sink, Duration interval);

  void on_event(Event event, Instant now);
  /// No sample after this.
  void stop() { stopped_ = true; }

 private:
  void sample_queues(Instant now);
  void sample_rates(Instant now);

  struct Seen {
    uint64_t flow = UINT64_MAX;
    uint64_t arrived = 0;
  };

  Network& network_;
  FlowRunner& runner_;
  SampleSink& sink_;
  static constexpr uint32_t kRateEvery = 10;
  Duration interval_;
  uint32_t ticks_ = 0;
  std::vector<bool> was_queued_;
  std::vector<Seen> seen_;  // the flows that ran at the last sample, in their order
  std::vector<Seen> seeing_;
  std::vector<double> rates_;
  bool stopped_ = false;
};

}  // namespace uroce::sim
