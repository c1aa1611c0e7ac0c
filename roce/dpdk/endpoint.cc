#include "dpdk/endpoint.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/out_of_memory.h"
#include "dpdk/eal.h"
#include "dpdk/endpoint_impl.h"
#include "dpdk/endpoint_registry.h"
#include "dpdk/log.h"
#include "dpdk/yield_backoff.h"
#include "engine/queue_pairs.h"
#include "host/descriptors.h"
#include "host/port_spec.h"
#include "host/way_out.h"

namespace uroce {
namespace {

/// True when the kernel took the CPU from this thread for another since the last call. A yield that hands over the CPU
/// counts, one that returns at once does not.
bool others_ran_here() {
  static thread_local long seen = -1;
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return std::exchange(seen, usage.ru_nivcsw) != usage.ru_nivcsw;
}

/// To be called without the lock, which the next thread on this CPU may need.
void offer_cpu(const TscClock& clock) {
  const Instant before = clock.now();
  sched_yield();
  const Instant after = clock.now();
  const Duration took = after - before;
  YieldBackoff::of_this_thread().on_yielded(after, took, took <= YieldBackoff::kOthersRan && others_ran_here());
}

void on_fork_child() {
  unlock_wire_ends();
  renew_log_after_fork();
  EndpointRegistry::get().abandon_all();
  NicKeeper::leave_ports();
  leave_wire_ends();
  leave_note();
}

void on_exit() try {
  EndpointRegistry::get().finish_all();
  remove_eal_directory();
} catch (const std::bad_alloc&) {
  // The rest ends with the process.
}

/// To be called before the first lock that the child of a fork must not find taken.
void hook_forks_once() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(lock_wire_ends, unlock_wire_ends, on_fork_child); });
}

/// To be called when DPDK has started: exit handlers run in reverse order, this one before DPDK's.
void hook_exit_once() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(on_exit); });
}

constexpr Duration kExitPatience = milliseconds(200);
constexpr Duration kDelayedLinger = milliseconds(500);
constexpr Duration kWireLinger = milliseconds(5);
constexpr Duration kUnreadLinger = milliseconds(300);
constexpr Duration kFarewellLinger = milliseconds(500);

EngineConfig make_engine_config(const EndpointConfig& config, NicKeeper& keeper) {
  EngineConfig engine;
  engine.mac = keeper.plan().identity.mac;
  engine.addresses = keeper.plan().identity.addresses;
  engine.max_frame_bytes = keeper.plan().max_frame_bytes;
  engine.congestion = config.congestion;
  engine.traffic_class = config.traffic_class;
  if (!keeper.nic().pause_in_hardware(config.lossless)) engine.pfc.lossless = config.lossless;
  engine.loss_recovery = config.loss_recovery;
  engine.qpn_blocks = keeper.nic().qpn_blocks();
  engine.multicast_filter = keeper.nic().multicast_filter();
  engine.raw_filter = keeper.nic().raw_filter();
  engine.direct = keeper.direct();
  engine.max_qps = queue_pairs_of(config, keeper.plan(), engine.max_qps);
  return engine;
}

/// Logs what `uroce stats` would show at the end.
void log_counters(Endpoint& endpoint) {
  constexpr size_t kLineBytes = 800;
  std::string text;
  const auto add = [&text](const char* name, uint64_t value) {
    if (value == 0) return;
    if (text.size() > kLineBytes) log_message(LogLevel::kInfo, "counted: %s", std::exchange(text, {}).c_str());
    text += (text.empty() ? "" : ", ") + (name + (" " + std::to_string(value)));
  };
  endpoint.for_each_counter(add);
  log_message(LogLevel::kInfo, "counted: %s", text.empty() ? "nothing" : text.c_str());
}

/// Programs of the machine are reached without one.
void see_to_way_out(const EndpointConfig& config) {
  const NoWayOut none = seek_way_out(config);
  if (none.why.empty()) return;
  log_message(none.is_news ? LogLevel::kWarning : LogLevel::kInfo,
              "port network: only programs of this machine are reached: %s", none.why.c_str());
}

/// EAL's threads do not exist in the child of a fork, and its memory is the parent's.
bool fork_allows(const EndpointConfig& config, std::string& error) {
  if (!EndpointRegistry::get().is_child()) return true;
  const auto spec = parse_port_spec(config.port, error);
  if (!spec) return false;
  const bool on_segment = spec->kind == PortKind::kSegment || spec->kind == PortKind::kSwitch;
  if (!config.eal_running && on_segment) return true;
  error =
      "this process is the child of one that had an endpoint open, and DPDK does not live through fork(): use --port "
      "shmlan, the default, which needs nothing of DPDK's, or fork before the first is opened";
  return false;
}

}  // namespace

std::unique_ptr<Endpoint> Endpoint::open(const EndpointConfig& config, Observer& observer, std::string& error) try {
  hook_forks_once();
  auto endpoint = std::make_unique<EndpointImpl>(config, observer);
  if (!fork_allows(config, error) || !EndpointRegistry::get().add(*endpoint, error) || !endpoint->start(error))
    return nullptr;
  return endpoint;
} catch (const std::bad_alloc&) {
  error = kOutOfMemory;
  return nullptr;
}

bool Endpoint::identify(const EndpointConfig& config, EndpointIdentity& identity, std::string& error) try {
  hook_forks_once();
  see_to_way_out(config);
  PortPlan plan;
  if (!plan_port(config, WireEndUse::kLook, plan, error)) return false;
  identity = plan.identity;
  return true;
} catch (const std::bad_alloc&) {
  error = kOutOfMemory;
  return false;
}

void Endpoint::for_each_counter(const Counter& f) {
  uroce::for_each_counter(engine().counters(), f);
  nic().for_each_counter(f);
  cm::for_each_counter(connections().counters(),
                       [&f](const char* name, uint64_t value) { f(("cm_" + std::string(name)).c_str(), value); });
}

bool EndpointImpl::start(std::string& error) {
  begun_ = true;
  if (!enough_descriptors(error)) return false;
  see_to_way_out(config_);
  if (!keeper_.plan(error)) return false;
  const bool own_thread = !config_.eal_running || config_.progress != Progress::kInline;
  if (own_thread) {
    if (!driver_.start(error)) return false;
  } else if (!open_port(error)) {
    return false;
  }
  hook_exit_once();
  register_telemetry();
  EndpointRegistry::get().publish(*this);
  const PortPlan& plan = keeper_.plan();
  const uint32_t mtu_bytes = EngineLock(*this)->qps().active_mtu_bytes();
  log_message(LogLevel::kInfo, "port %s, MAC %s, RoCE MTU %u", plan.name.c_str(), to_string(plan.identity.mac).c_str(),
              mtu_bytes);
  for (const LocalAddress& address : plan.identity.addresses) {
    log_message(LogLevel::kInfo, "address %s", to_string(address).c_str());
  }
  return true;
}

bool EndpointImpl::open_port(std::string& error) {
  if (!keeper_.open(error)) return false;
  clock_.start();
  keeper_.impair(clock_);
  {
    const EngineLock owner(*this);
    const EngineConfig engine_config = make_engine_config(config_, keeper_);
    engine_ = std::make_unique<Engine>(engine_config, keeper_.nic().port(), random_, observer_);
    engine_->set_owner(ownership_.owner());
    static_cast<void>(keeper_.link_speed_mbps());  // asked once, so that the engine knows it
    keeper_.follow_link(*engine_);
    cm_.start(*engine_, keeper_.nic(), random_);
  }
  watch_.start();
  return captures_.start(config_.pcap_file, error);
}

EndpointImpl::~EndpointImpl() {
  if (!begun_) return;  // refused; in the child of a fork, threads that held locks do not exist
  if (!abandoned_) {
    EndpointRegistry::get().withdraw(*this);
    if (engine_) {
      const EngineLock owner(*this);
      cm_.set_events(nullptr);
    }
    linger();
    driver_.stop();
    if (engine_) {
      lock();
      cm_.stop();
      engine_.reset();
      unlock();
    }
    keeper_.close();
  } else {
    // DPDK's memory is shared with the parent, and its threads do not exist here.
    cm_.abandon();
    static_cast<void>(engine_.release());
    keeper_.abandon();
    driver_.abandon();
  }
  EndpointRegistry::get().remove(*this);
}

void EndpointImpl::abandon() {
  ownership_.reset_after_fork();
  driver_.leave();
  captures_.abandon();
  keeper_.leave();
  abandoned_ = true;
}

void EndpointImpl::lock() { ownership_.acquire(); }

void EndpointImpl::unlock() {
  const bool yield = std::exchange(yield_wanted_, false);
  driver_.note_given_back();
  ownership_.release();
  if (yield) offer_cpu(clock_);
}

Instant EndpointImpl::next_timeout() const {
  return std::min({engine_->next_timeout(), keeper_.nic().next_timeout(), cm_.next_timeout()});
}

/// Nothing on the data path allocates memory in a turn: news of neighbours, connections and other members does.
/// Whatever there is no memory for is left out, and repeated by the side that waits for it. It is logged once, since
/// turns are many.
uint32_t EndpointImpl::turn(Instant now) try {
  turns_++;
  keeper_.on_turn(*engine_, now);
  cm_.on_turn(now);
  const uint32_t done = engine_->turn(now);
  cm_.after_turn();
  return done + keeper_.nic().moved();
} catch (const std::bad_alloc&) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) log_message(LogLevel::kError, "%s: parts of turns are left out", kOutOfMemory);
  return 0;
}

uint32_t EndpointImpl::drive() {
  if (abandoned_ || config_.progress == Progress::kThread) return 0;
  const NoCancel in_a_turn;
  const Instant now = clock_.now();
  driver_.driving().note_driven(now);
  const uint32_t work = turn(now);
  if (work != 0) {
    YieldBackoff::of_this_thread().on_work(now);
  } else if (YieldBackoff::of_this_thread().on_nothing(now)) {
    yield_wanted_ = true;
  }
  return work;
}

void EndpointImpl::transmit(Instant now) {
  if (abandoned_) return;
  std::optional<NoCancel> in_a_driver;  // which may call the kernel
  if (keeper_.plan().segment_dir.empty()) in_a_driver.emplace();
  engine_->transmit(now);
}

void EndpointImpl::linger() {
  if (!engine_) return;
  // A program may end as soon as its last receive has completed, before the acknowledgement was sent to the peer.
  {
    const EngineLock owner(*this);
    while (cm_.hang_up(clock_.now()) == cm::Farewells::kMoreToTell) turn(clock_.now());
    const Instant end = clock_.now() + microseconds(200);
    while (clock_.now() < end) turn(clock_.now());
    // Frames that wait in the device, for example behind a slow cable, still leave if that does not take long.
    const Instant latest = end + kDelayedLinger;
    while (clock_.now() < latest && keeper_.nic().next_timeout() < latest) turn(clock_.now());
  }
  const auto turn_while = [this](Duration patience, auto&& waits) {
    const Instant latest = clock_.now() + patience;
    for (bool waiting = true; waiting && clock_.now() < latest;) {
      {
        const EngineLock owner(*this);
        turn(clock_.now());
        waiting = waits();
      }
      if (waiting) usleep(kWireLinger.ns / 1000 / 10);
    }
  };
  // A farewell that was lost, or whose answer was, cannot be repeated after the process has ended.
  turn_while(kFarewellLinger, [&] { return cm_.hang_up(clock_.now()) != cm::Farewells::kDone; });
  // Frames in shared memory are gone with this process, so a peer that sleeps gets some time to wake up and read them;
  // on a segment we know when it has.
  if (keeper_.plan().options.wire) usleep(kWireLinger.ns / 1000);
  turn_while(kUnreadLinger, [&] { return keeper_.nic().unread(); });
}

void EndpointImpl::look_after(Instant now) try {
  captures_.look_after(now);
  watch_.look(now);
} catch (const std::bad_alloc&) {
  log_message(LogLevel::kError, "%s: the port was not looked after", kOutOfMemory);
}

void EndpointImpl::finish() {
  if (abandoned_) return;
  // A thread may call exit() while it owns the engine; then the last turns are left out.
  if (!ownership_.try_acquire_for(kExitPatience)) return;
  ownership_.release();
  linger();
  if (!engine_) return;
  captures_.finish();
  const EngineLock owner(*this);
  log_counters(*this);
}

}  // namespace uroce
