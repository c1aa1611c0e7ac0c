// Hosts joined by links, and a virtual clock of their own. The same seed gives the same run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "sim/event_queue.h"
#include "sim/host.h"
#include "sim/link.h"
#include "sim/sim_switch.h"

namespace uroce::sim {

/// Both directions of a cable.
struct Cable {
  Link* a_to_b = nullptr;
  Link* b_to_a = nullptr;
  void set(const fabric::ImpairmentConfig& impairments) const {
    a_to_b->set_impairments(impairments);
    b_to_a->set_impairments(impairments);
  }
};

class World {
 public:
  explicit World(uint64_t seed) : seed_(seed), random_(seed) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  EventQueue& events() { return events_; }
  RandomSource& random() { return random_; }
  Instant now() const { return events_.now(); }

  Host& add_host(const EngineConfig& config);
  SimSwitch& add_switch(const fabric::SwitchConfig& config);
  Link& add_link(FrameSink& to, const LinkConfig& config);
  /// Two hosts on a cable, without queues of their own: see SimPort.
  Cable connect(Host& a, Host& b, const LinkConfig& config);

  /// Runs until nothing is scheduled any more. False when `limit` of virtual time was over before.
  bool run_until_idle(Duration limit = milliseconds(60'000));
  void run_for(Duration duration);
  /// Runs until `done()` holds. False when `limit` of virtual time is over, or nothing happens any more, and it still
  /// does not hold.
  template <typename Done>
  bool run_until(Done&& done, Duration limit = milliseconds(60'000)) {
    const Instant end = now() + limit;
    wake_all();
    while (!done()) {
      if (events_.next() > end) return false;  // also when it is never()
      events_.step();
    }
    return true;
  }

 private:
  void wake_all();
  /// The random stream of an object. It depends on the kind and number of the object, so that one more link changes no
  /// host.
  SeededRandom stream(uint32_t kind, size_t number) const;

  EventQueue events_;
  uint64_t seed_;
  SeededRandom random_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<SimSwitch>> switches_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

/// The configuration of the n-th host (from 1): 10.0.0.n/24 and fd00::n/64, MAC 02:00:00:00:00:n.
EngineConfig simple_config(uint8_t n);

}  // namespace uroce::sim
