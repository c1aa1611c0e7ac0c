#include "sim/sampler.h"

#include <algorithm>

#include "base/check.h"
#include "engine/priority_flow_control.h"
#include "transport/counters.h"

namespace uroce::sim {

NetworkTotals totals_of(Network& network) {
  NetworkTotals totals;
  for (const SimSwitch* node : network.switches()) {
    for (fabric::PortId port = 0; port < node->fabric().port_count(); port++) {
      const fabric::SwitchPortCounters& counters = node->fabric().counters(port);
      totals.queued_bytes += node->queue_bytes(port);
      totals.max_queue_bytes = std::max(
          totals.max_queue_bytes, *std::max_element(counters.max_queue_bytes.begin(), counters.max_queue_bytes.end()));
      totals.ecn_marked += counters.ecn_marked;
      totals.dropped += counters.dropped();
      for (const uint64_t n : counters.xoff_sent) totals.pauses_sent += n;
      for (const uint64_t n : counters.watchdog_fired) totals.watchdog_fired += n;
    }
  }
  for (uint32_t i = 0; i < network.host_count(); i++) {
    const NicCounters& nic = network.host(i).port().counters();
    const PriorityFlowControl& engine = network.host(i).engine().flow_control();
    totals.host_pauses += nic.pauses_sent + engine.pauses_begun();
    totals.nic_dropped += nic.rx_dropped;
    totals.watchdog_fired += network.host(i).engine().counters().pfc_watchdog_fired;
  }
  return totals;
}

Sampler::Sampler(Network& network, FlowRunner& runner, SampleSink& sink, Duration interval)
    : network_(network), runner_(runner), sink_(sink), interval_(interval), was_queued_(network.egresses().size()) {
  network_.world().events().schedule(*this, network_.world().now() + interval, Event{});
}

void Sampler::sample_queues(Instant now) {
  ensure(was_queued_.size() == network_.egresses().size(), "no cable is added to a network that runs");
  for (size_t i = 0; i < network_.egresses().size(); i++) {
    const Network::Egress& egress = network_.egresses()[i];
    const uint64_t bytes = egress.node->queue_bytes(egress.port);
    if (bytes != 0 || was_queued_[i]) sink_.on_queue(now, egress, bytes);
    was_queued_[i] = bytes != 0;
  }
}

void Sampler::sample_rates(Instant now) {
  std::sort(seen_.begin(), seen_.end(), [](const Seen& a, const Seen& b) { return a.flow < b.flow; });
  seeing_.clear();
  rates_.clear();
  double sum = 0;
  runner_.for_each_active([&](const FlowRecord& flow, uint64_t arrived) {
    seeing_.push_back({flow.id, arrived});
    const auto before = std::lower_bound(seen_.begin(), seen_.end(), flow.id,
                                         [](const Seen& seen, uint64_t id) { return seen.flow < id; });
    if (before == seen_.end() || before->flow != flow.id) return;
    const double rate =
        static_cast<double>(arrived - before->arrived) * 8e9 / static_cast<double>(interval_.ns * kRateEvery);
    sink_.on_rate(now, flow, rate);
    rates_.push_back(rate);
    sum += rate;
  });
  std::swap(seen_, seeing_);
  sink_.on_sample(now, totals_of(network_), rates_.size(), sum, jain_index(rates_));
}

void Sampler::on_event(Event /*event*/, Instant now) {
  if (stopped_) return;
  sample_queues(now);
  if (++ticks_ % kRateEvery == 0) sample_rates(now);
  network_.world().events().schedule(*this, now + interval_, Event{});
}

}  // namespace uroce::sim
