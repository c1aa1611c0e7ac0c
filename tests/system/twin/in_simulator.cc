#include "sim/host.h"
#include "sim/link.h"
#include "worlds.h"

namespace uroce::twin {

namespace {

constexpr Duration kCable = microseconds(2);

/// The random numbers that uroce-switch uses for its n-th port.
SeededRandom chance_of(uint64_t port) { return SeededRandom(kCableSeed + port * 0xD1342543DE82EF95u); }

sim::LinkConfig link_of(const Scenario& scenario, bool from_b) {
  sim::LinkConfig config{kCable, 0, {}};
  fabric::parse_impairments(impairments(scenario, from_b), config.impairments);
  return config;
}

struct SimulatedHost {
  SimulatedHost(sim::EventQueue& events, const Scenario& scenario, bool is_b)
      : host(events, End::config_of(scenario, is_b), End::seed_of(is_b)), end(host.engine(), scenario, is_b) {
    host.set_program([this] {
      if (end.work(host.now())) host.wake();
    });
  }
  sim::Host host;
  End end;
};

}  // namespace

Outcome in_simulator(const Scenario& scenario) {
  sim::EventQueue events;
  SimulatedHost a(events, scenario, false);
  SimulatedHost b(events, scenario, true);
  SeededRandom from_a = chance_of(0);
  SeededRandom from_b = chance_of(1);
  sim::Link forth(events, from_a, b.host.port(), link_of(scenario, false));
  sim::Link back(events, from_b, a.host.port(), link_of(scenario, true));
  a.host.port().connect(forth);
  b.host.port().connect(back);
  End::connect(a.end, b.end, events.now());
  for (SimulatedHost* end : {&b, &a}) {
    end->end.start();
    end->host.wake();
  }
  const Instant limit = events.now() + kLimit;
  while (!events.empty() && events.next() <= limit) events.step();
  return {a.end.take_seen(), b.end.take_seen()};
}

}  // namespace uroce::twin
