#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <rte_mempool.h>

#include "dpdk/eal.h"
#include "host/port_plan.h"
#include "segment/segment_port.h"
#include "sim/recording_observer.h"
#include "uroce_switch/live_switch.h"
#include "worlds.h"

namespace uroce::twin {

namespace {

constexpr Duration kQuiet = milliseconds(3);  // after the end, during which nothing more may come

EngineMutex g_lock;

netswitch::Options switch_options(const Scenario& scenario) {
  netswitch::Options options;
  options.name = "twin";
  options.ports = 2;
  options.frames = 1024;
  options.seed = kCableSeed;
  for (const unsigned port : {0u, 1u}) {
    const std::string text = impairments(scenario, port == 1);
    if (!text.empty()) options.impairments.push_back({port, true, text});
  }
  return options;
}

std::unique_ptr<segment::SegmentPort> plug_in(const SwitchSign& sign, unsigned number, const EngineConfig& config,
                                              std::string& error) {
  segment::SegmentOptions options;
  options.directory = sign.port_place(number);
  options.record.role = segment::Role::kBridge;
  options.record.host = "end" + std::to_string(number);
  options.record.mac = config.mac;
  options.frame_bytes = config.max_frame_bytes;
  return segment::SegmentPort::join(options, error);
}

/// Time of this world, which no clock makes: it advances a little with each turn, since frames take time to travel, and
/// when nothing happens, up to the next deadline. So no machine is too slow for it, and every run is the same.
class WorldClock {
 public:
  Instant now() const { return now_; }
  /// `next` is the next deadline.
  void turn_over(bool busy, Instant next) {
    now_ = now_ + kTurn;
    if (!busy) now_ = std::clamp(next, now_, now_ + kIdleMost);
  }

 private:
  static constexpr Duration kTurn = microseconds(1);
  static constexpr Duration kIdleMost = microseconds(50);  // ports look for each other this often
  Instant now_ = Instant{0} + milliseconds(60'000);  // the switch's faults count from its start, by their own clock
};

/// An engine on a port.
struct LiveHost {
  LiveHost(const Scenario& scenario, bool is_b, std::unique_ptr<segment::SegmentPort> its_port)
      : port(std::move(its_port)),
        random(End::seed_of(is_b)),
        engine(End::config_of(scenario, is_b), *port, random, observer),
        end(engine, scenario, is_b) {}

  /// Makes turns until the engine has nothing more to do. Whether it did anything.
  bool turn(Instant now) {
    port->on_turn(now);
    if (!plugged_in) return false;  // every frame sent counts for the cable's random numbers
    bool busy = false;
    for (bool more = true; more; busy = busy || more) {
      more = engine.turn(now) != 0;
      more = end.work(now) || more;
    }
    return busy;
  }

  bool plugged_in = false;
  std::unique_ptr<segment::SegmentPort> port;
  SeededRandom random;
  sim::RecordingObserver observer;
  Engine engine;
  End end;
};

class Lab {
 public:
  explicit Lab(const Scenario& scenario)
      : scenario_(scenario), options_(switch_options(scenario)), live_(options_, g_lock) {}

  std::string start() {
    std::string error;
    if (!sign_.put_up(options_.name, 2, "", error)) return error;
    std::vector<netswitch::PlannedPort> ports;
    if (!netswitch::probe_ports(options_, sign_, ports, error)) return error;
    if (!live_.start(ports, error)) return error;
    g_lock.acquire();
    for (unsigned i = 0; i < 2 && error.empty(); i++) {
      auto port = plug_in(sign_, i, End::config_of(scenario_, i == 1), error);
      if (port) hosts_[i] = std::make_unique<LiveHost>(scenario_, i == 1, std::move(port));
    }
    g_lock.release();
    return error;
  }

  ~Lab() {
    g_lock.acquire();
    for (auto& host : hosts_) host.reset();
    g_lock.release();
  }

  std::string run() {
    if (!turn_until([this] { return plugged_in(); })) return "the ports did not find each other";
    g_lock.acquire();
    for (auto& host : hosts_) host->plugged_in = true;
    End::connect(hosts_[0]->end, hosts_[1]->end, clock_.now());
    hosts_[1]->end.start();
    hosts_[0]->end.start();
    g_lock.release();
    turn_until([this] { return hosts_[0]->end.done() && hosts_[1]->end.done(); });
    turn_until([this] { return clock_.now() - busy_at_ > kQuiet; });
    return "";
  }

  Seen seen(unsigned host) { return hosts_[host]->end.take_seen(); }

 private:
  bool plugged_in() const {
    for (unsigned i = 0; i < 2; i++) {
      const netswitch::SwitchLink& link = *live_.links()[i];
      // A link counts as up until its port, which may look for its peer late, was asked for the first time.
      if (hosts_[i]->port->peers().size() != 1 || !link.port().link_up() || !link.up()) return false;
    }
    return true;
  }

  void turn() {
    const Instant now = clock_.now();
    bool busy = false;
    const auto turn_switch = [&] {
      while (live_.turn(now) != 0) busy = true;
    };
    for (auto& host : hosts_) {
      turn_switch();
      busy = host->turn(now) || busy;
    }
    turn_switch();
    if (busy) busy_at_ = now;
    clock_.turn_over(busy, next_event());
  }

  Instant next_event() const {
    Instant next = live_.fabric().next_event();
    for (const auto& link : live_.links()) next = std::min(next, link->next_event());
    for (const auto& host : hosts_) next = std::min(next, host->engine.next_timeout());
    return next;
  }

  template <typename Done>
  bool turn_until(Done&& done) {
    const Instant limit = clock_.now() + kLimit;
    while (!done()) {
      if (clock_.now() > limit) return false;
      g_lock.acquire();
      turn();
      g_lock.release();
    }
    return true;
  }

  const Scenario& scenario_;
  netswitch::Options options_;
  SwitchSign sign_;
  netswitch::LiveSwitch live_;
  WorldClock clock_;
  Instant busy_at_;
  std::array<std::unique_ptr<LiveHost>, 2> hosts_;
};

/// Starts DPDK once for all scenarios.
bool start_dpdk(std::string& error) {
  static const std::string directory = "/tmp/uroce-twin-" + std::to_string(getpid());
  static const int at_exit = std::atexit([] {
    remove_eal_directory();
    std::error_code code;
    std::filesystem::remove_all(directory, code);
  });
  static_cast<void>(at_exit);
  setenv("UROCE_RUNTIME_DIR", directory.c_str(), 1);
  EalOptions eal;
  eal.hugepages = Hugepages::kNo;
  eal.extra_args = {"-m", "160"};
  return start_eal(eal, error);
}

}  // namespace

Outcome on_switch(const Scenario& scenario, std::string& error) {
  Outcome outcome;
  if (!start_dpdk(error)) return outcome;
  {
    Lab lab(scenario);
    error = lab.start();
    if (error.empty()) error = lab.run();
    if (error.empty()) outcome = {lab.seen(0), lab.seen(1)};
  }
  rte_mempool_free(rte_mempool_lookup("uroce-switch"));
  return outcome;
}

}  // namespace uroce::twin
