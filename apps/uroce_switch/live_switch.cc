#include "live_switch.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

#include <rte_lcore.h>
#include <rte_pause.h>

namespace uroce::netswitch {
namespace {

// The speed of ports that --rate does not limit and that do not know their speed, such as shared memory.
constexpr uint64_t kUnknownRate = 100'000'000'000;
constexpr uint64_t kBufferBytes = 16'000'000;

// After the last frame the loop looks again at once for kSpin, then lets others run in between until kAwake, and
// then sleeps, longer each time.
constexpr Duration kSpin = microseconds(4);
constexpr Duration kAwake = microseconds(200);
constexpr Duration kNapMin = microseconds(50);
constexpr Duration kNapMax = milliseconds(1);
constexpr Duration kNapAlone = milliseconds(5);  // while no peer is connected
constexpr Duration kHousekeeping = milliseconds(100);

int64_t wall_clock_ns() {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

fabric::SwitchConfig LiveSwitch::switch_config(const std::vector<PlannedPort>& planned,
                                               const std::vector<std::unique_ptr<SwitchPort>>& ports) const {
  fabric::SwitchConfig config;
  config.max_frames = options_.frames;
  config.set_lossless(options_.lossless);
  config.pfc_watchdog = milliseconds(200);
  for (fabric::PriorityConfig& priority : config.priorities) priority.ecn.enabled = false;
  uint64_t headrooms = 0;
  for (size_t i = 0; i < planned.size(); i++) {
    fabric::PortConfig port;
    // Pauses are counted in bit times of the port, not of the cap.
    const uint64_t said = uint64_t{ports[i]->link_speed_mbps()} * 1'000'000;
    const uint64_t speed = said != 0 ? said : kUnknownRate;
    port.bits_per_second = pause_speed(planned[i].plan, speed);
    port.headroom_bytes = static_cast<uint32_t>(fabric::headroom_of(config, port));
    // Frames that are already in the ring arrive in any case, because the loop may have been late.
    port.headroom_bytes += ring_bytes(planned[i]);
    if (options_.ecn) {
      port.priorities = config.priorities;
      const uint64_t rate = rate_of(options_, i) != 0 ? rate_of(options_, i) : speed;
      fabric::EcnConfig ecn = *options_.ecn;
      ecn.kmin_bytes = static_cast<uint32_t>(std::min<uint64_t>(ecn_kmin(*options_.ecn, rate), UINT32_MAX));
      ecn.kmax_bytes = static_cast<uint32_t>(std::min<uint64_t>(ecn_kmax(*options_.ecn, rate), UINT32_MAX));
      ecn.per_bits_per_second = 0;
      for (fabric::PriorityConfig& priority : *port.priorities) priority.ecn = ecn;
    }
    for (const fabric::PriorityConfig& priority : config.priorities) {
      if (priority.lossless) headrooms += port.headroom_bytes + config.reserved_bytes;
    }
    config.ports.push_back(port);
  }
  config.buffer_bytes = options_.buffer_bytes != 0 ? options_.buffer_bytes : kBufferBytes + headrooms;
  return config;
}

unsigned LiveSwitch::impaired_directions(size_t ports) const {
  unsigned count = 0;
  for (const ImpairOption& impair : options_.impairments) count += impair.port ? 1 : static_cast<unsigned>(ports);
  return count;
}

SwitchLinkConfig LiveSwitch::cable_config(const PlannedPort& planned, size_t number, unsigned delaying) const {
  SwitchLinkConfig config;
  config.id = static_cast<fabric::PortId>(number);
  config.name = planned.plan.name;
  config.max_frame_bytes = planned.plan.max_frame_bytes;
  config.bits_per_second = rate_of(options_, number);
  config.max_delayed = options_.frames / std::max(delaying, 1u);
  config.seed = SeededRandom(options_.seed + number * 0xD1342543DE82EF95u).next_u64();
  for (const ImpairOption& impair : options_.impairments) {
    if (impair.port && *impair.port != number) continue;
    fabric::parse_impairments(impair.text, impair.in ? config.in : config.out);
  }
  return config;
}

bool LiveSwitch::start(const std::vector<PlannedPort>& planned, std::string& error) {
  if (planned.size() < 2) {
    error =
        "a switch of " + std::to_string(planned.size()) + " ports leads nowhere: say --ports, --port, or --vdev to EAL";
    return false;
  }
  error = check_targets(options_, planned.size());
  if (!error.empty()) return false;
  lock_.set_lcore(rte_get_main_lcore());
  guard_interrupt_thread(lock_);
  clock_.start();
  prctl(PR_SET_TIMERSLACK, 1000UL);
  rte_mempool* mempool = make_shared_pool(options_, planned, error);
  if (mempool == nullptr) return false;
  pool_ = std::make_unique<MbufPool>(mempool);

  lock_.acquire();
  std::vector<std::unique_ptr<SwitchPort>> ports;
  for (const PlannedPort& port : planned) {
    rte_mempool* const pool = pool_of(options_, port, ports.size(), mempool, error);
    ports.push_back(pool != nullptr ? start_port(port, pool, error) : nullptr);
    if (ports.back() == nullptr) {
      error = "port " + port.plan.name + ": " + error;
      break;
    }
  }
  if (error.empty()) {
    const fabric::SwitchConfig config = switch_config(planned, ports);
    error = fabric::check_config(config);
    random_ = SeededRandom(options_.seed);
    started_ = last_work_ = clock_.now();
    if (error.empty()) switch_ = std::make_unique<fabric::Switch>(config, *pool_, random_);
    const unsigned delaying = impaired_directions(planned.size());
    for (size_t i = 0; error.empty() && i < planned.size(); i++) {
      links_.push_back(
          std::make_unique<SwitchLink>(cable_config(planned[i], i, delaying), std::move(ports[i]), *pool_, started_));
    }
  }
  ports.clear();
  lock_.release();
  return error.empty() && open_capture(error);
}

bool LiveSwitch::open_capture(std::string& error) {
  if (options_.pcap_file.empty()) return true;
  const auto name = [this](size_t i) { return std::to_string(i) + " " + links_[i]->config().name; };
  capture_ = PcapngWriter::create(options_.pcap_file, name(0), wall_clock_ns() - clock_.now().ns, error);
  if (!capture_) return false;
  links_[0]->set_capture(capture_.get(), 0);
  for (size_t i = 1; i < links_.size(); i++) links_[i]->set_capture(capture_.get(), capture_->add_interface(name(i)));
  return true;
}

LiveSwitch::~LiveSwitch() {
  lock_.acquire();
  switch_.reset();
  links_.clear();
  lock_.release();
  unguard_interrupt_thread(lock_);
}

uint32_t LiveSwitch::turn(Instant now) {
  uint32_t work = 0;
  for (const auto& link : links_) work += link->receive(*switch_, now);
  switch_->on_time(now);
  for (const auto& link : links_) work += link->transmit(*switch_, now);
  for (const auto& link : links_) link->look_after(*switch_, now);
  return work;
}

void LiveSwitch::run(const std::atomic<bool>& stop, const std::function<void()>& every_turn) {
  Instant next_housekeeping{0};
  while (!stop.load(std::memory_order_relaxed)) {
    const Instant now = clock_.now();
    lock_.acquire();
    const uint32_t work = turn(now);
    lock_.release();
    if (work != 0) {
      last_work_ = now;
      nap_ = kNapMin;
    }
    if (now >= next_housekeeping) {
      next_housekeeping = now + kHousekeeping;
      every_turn();
      if (capture_) {
        capture_->begin_flush();
        capture_->finish_flush();
      }
    }
    if (work == 0 && !options_.busy) rest(now);
  }
}

/// Called when there was nothing to do.
void LiveSwitch::rest(Instant now) {
  const Duration idle = now - last_work_;
  if (idle < kSpin) return rte_pause();
  Instant next = switch_->next_event();
  bool anybody = false;
  bool waiting = false;
  for (const auto& link : links_) {
    next = std::min(next, link->next_event());
    anybody = anybody || link->up();
    waiting = waiting || link->port().waiting();
  }
  // The neighbour that the switch waits for may share this CPU.
  if (idle < kAwake || next - now < kNapMin) {
    sched_yield();
    return;
  }
  const Duration longest = waiting ? kNapMin : anybody ? kNapMax : kNapAlone;
  const Duration sleep = std::min({nap_, longest, next - now});
  const timespec time{0, sleep.ns};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  nap_ = std::min(nap_ * 2, longest);
}

}  // namespace uroce::netswitch
