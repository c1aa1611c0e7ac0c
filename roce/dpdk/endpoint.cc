#include "dpdk/endpoint.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "dpdk/descriptors.h"
#include "dpdk/driver_libraries.h"
#include "dpdk/eal.h"
#include "dpdk/endpoint_impl.h"
#include "dpdk/engine_mutex.h"
#include "dpdk/interrupt_guard.h"
#include "dpdk/log.h"

namespace uroce {
namespace {

// How long a program that polls may find nothing before it offers its CPU to others after every poll: the peer, which
// it waits for, may be one of them.
constexpr Duration kPatience = microseconds(4);

/// Who owns the engine owns its lcore id too. Lives as long as the process: DPDK's interrupt thread uses it.
class Ownership final : public EngineLockable {
 public:
  void acquire() override {
    mutex_.lock();
    take_lcore();
  }
  bool try_acquire_for(Duration patience) {
    if (!mutex_.try_lock_for(patience)) return false;
    take_lcore();
    return true;
  }
  void release() override {
    RTE_PER_LCORE(_lcore_id) = saved_lcore_;
    mutex_.unlock();
  }
  void set_lcore(unsigned lcore) { lcore_ = lcore; }
  void reset_after_fork() { mutex_.reset_after_fork(); }

 private:
  void take_lcore() {
    saved_lcore_ = RTE_PER_LCORE(_lcore_id);
    RTE_PER_LCORE(_lcore_id) = lcore_;
  }

  EngineMutex mutex_;
  unsigned lcore_ = LCORE_ID_ANY;
  unsigned saved_lcore_ = LCORE_ID_ANY;
};

Ownership g_ownership;
std::atomic<EndpointImpl*> g_endpoint{nullptr};  // the one of this process
std::mutex g_publishing;                         // an onlooker has it for as long as it looks
EndpointImpl* g_published = nullptr;             // under g_publishing

void on_fork_child() {
  g_ownership.reset_after_fork();
  if (EndpointImpl* endpoint = g_endpoint.load()) endpoint->abandon();
  leave_places();
  leave_note();
}

void on_exit() {
  if (EndpointImpl* endpoint = g_endpoint.load()) endpoint->finish();
  remove_eal_directory();
}

void hook_process_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, on_fork_child);
    std::atexit(on_exit);
  });
}

constexpr Duration kWireLinger = milliseconds(5);

int64_t wall_clock_ns() {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

std::unique_ptr<Endpoint> Endpoint::open(const EndpointConfig& config, Observer& observer, std::string& error) {
  auto endpoint = std::make_unique<EndpointImpl>(config, observer);
  EndpointImpl* none = nullptr;
  if (!g_endpoint.compare_exchange_strong(none, endpoint.get())) {
    error = "this process has an endpoint already";
    return nullptr;
  }
  if (!endpoint->start(error)) return nullptr;
  return endpoint;
}

bool Endpoint::identify(const EndpointConfig& config, EndpointIdentity& identity, std::string& error) {
  PortPlan plan;
  if (!plan_port(config, PlaceUse::kLook, plan, error)) return false;
  identity = plan.identity;
  return true;
}

bool EndpointImpl::start(std::string& error) {
  if (!enough_descriptors(error) || !plan_it(error)) return false;
  const bool own_thread = !config_.eal_running || config_.progress != Progress::kInline;
  if (own_thread) {
    if (!start_thread(error)) return false;
  } else if (!open_port(error)) {
    return false;
  }
  hook_process_once();
  publish_endpoint(this);
  log_message(LogLevel::kInfo, "port %s, MAC %s, RoCE MTU %u", plan_.name.c_str(),
              to_string(plan_.identity.mac).c_str(), engine_->active_mtu_bytes());
  for (const LocalAddress& address : plan_.identity.addresses) {
    log_message(LogLevel::kInfo, "address %s", to_string(address).c_str());
  }
  return true;
}

bool EndpointImpl::plan_it(std::string& error) {
  if (config_.eal_running) return plan_existing_port(config_, plan_, error);
  if (!plan_port(config_, PlaceUse::kTake, plan_, error)) return false;
  return !plan_.netdev || share_netdev(error);
}

bool EndpointImpl::share_netdev(std::string& error) {
  std::vector<LocalAddress> foreign;
  for (const LocalAddress& address : plan_.identity.addresses) {
    if (address.vlan_id == 0 && !port_hold_.take(address, *plan_.netdev, error)) return false;
    const auto& own = plan_.netdev->addresses;
    if (std::find_if(own.begin(), own.end(), [&](const LocalAddress& a) { return a.ip == address.ip; }) == own.end()) {
      foreign.push_back(address);
    }
  }
  const auto conflict = find_address_conflict(*plan_.netdev, foreign);
  if (!conflict) return true;
  error = "address already in use: " + to_string(conflict->first) + " belongs to " + to_string(conflict->second) +
          " on the network of " + plan_.netdev->name + "; choose another with --addr";
  return false;
}

/// In the thread that EAL may make its own.
bool EndpointImpl::open_port(std::string& error) {
  if (!config_.eal_running) {
    const EalOptions options{config_.eal_args, plan_.spec.kind == PortKind::kPci ? plan_.devargs : "",
                             config_.hugepages};
    if (!start_eal(options, error)) return false;
    g_ownership.set_lcore(rte_get_main_lcore());
  } else {
    g_ownership.set_lcore(rte_lcore_id() != LCORE_ID_ANY ? rte_lcore_id() : rte_get_main_lcore());
  }
  guard_interrupt_thread(g_ownership);
  clock_.start();
  lock();
  const bool good = (config_.eal_running || probe(error)) && (port_ = DpdkPort::start(plan_.options, error));
  if (good) {
    netdev_name_ = plan_.identity.netdev;
    EngineConfig engine_config;
    engine_config.mac = plan_.identity.mac;
    engine_config.addresses = plan_.identity.addresses;
    engine_config.max_frame_bytes = plan_.max_frame_bytes;
    engine_config.congestion = config_.congestion;
    engine_config.traffic_class = config_.traffic_class;
    if (!port_->pause_in_hardware(config_.lossless)) engine_config.pfc.lossless = config_.lossless;
    engine_config.loss_recovery = config_.loss_recovery;
    engine_ = std::make_unique<Engine>(engine_config, *port_, random_, observer_);
  }
  unlock();
  if (good) start_port_watch();
  return good && make_capture(error);
}

bool EndpointImpl::probe(std::string& error) {
  if (uroce_load_driver_libraries != nullptr && !uroce_load_driver_libraries(plan_.spec.driver.c_str(), error))
    return false;
  const QuietDpdk quiet;
  const std::string& name = plan_.spec.device;
  // A PCI device is probed while EAL starts, but not when it is opened again.
  const auto found = [&] { return rte_eth_dev_get_port_by_name(name.c_str(), &plan_.options.port_id) == 0; };
  if (!found() && (rte_dev_probe(plan_.devargs.c_str()) != 0 || !found())) {
    error = "DPDK cannot open port " + plan_.name;
    if (const std::string last = quiet.first_error(); !last.empty()) error += " (" + last + ")";
    if (const VirtualDriver* driver = find_virtual_driver(plan_.spec.device); driver != nullptr) {
      error += std::string("; are its arguments right? For example ") + driver->example;
    }
    if (plan_.spec.kind == PortKind::kPci) {
      error += "; it has to be bound to vfio-pci: dpdk-devbind.py -b vfio-pci " + plan_.spec.device;
    }
    return false;
  }
  rte_ether_addr mac{};
  if (plan_.spec.kind == PortKind::kPci && rte_eth_macaddr_get(plan_.options.port_id, &mac) == 0) {
    std::memcpy(plan_.identity.mac.bytes.data(), mac.addr_bytes, 6);
  }
  return true;
}

bool EndpointImpl::make_capture(std::string& error) {
  if (config_.pcap_file.empty()) return true;
  capture_ = PcapngWriter::create(config_.pcap_file, plan_.name, wall_clock_ns() - clock_.now().ns, error);
  if (!capture_) return false;
  const EngineLock owner(*this);
  engine_->set_capture(capture_.get());
  return true;
}

EndpointImpl::~EndpointImpl() {
  if (g_endpoint.load() != this) return;  // refused, as there was one already
  if (!abandoned_) {
    publish_endpoint(nullptr);
    linger();
    stopping_ = true;
    kick();
    if (thread_.joinable()) thread_.join();
    if (engine_ || port_) {
      lock();
      engine_.reset();
      port_.reset();
      unlock();
    }
  } else {
    // DPDK's memory is shared with the parent, and the threads are not here.
    static_cast<void>(engine_.release());
    static_cast<void>(port_.release());
    static_cast<void>(capture_.release());
    if (thread_.joinable()) thread_.detach();
  }
  g_endpoint.store(nullptr);
}

bool EndpointImpl::link_up() const {
  // The wire is there also while nobody is at its other end: programs refuse a port that is down.
  if (abandoned_) return false;
  return plan_.options.wire || !netdev_name_.empty() ? plan_.options.wire || netdev_carrier(netdev_name_)
                                                     : port_->link_up();
}

uint64_t EndpointImpl::link_speed_mbps() const {
  if (plan_.netdev && plan_.netdev->speed_mbps != 0) return plan_.netdev->speed_mbps;
  return port_->link_speed_mbps();
}

void EndpointImpl::lock() { g_ownership.acquire(); }

void EndpointImpl::unlock() {
  const bool yield = std::exchange(yield_wanted_, false);
  g_ownership.release();
  if (yield) sched_yield();
}

uint32_t EndpointImpl::turn(Instant now) {
  turns_++;
  port_->on_turn(now);
  // A link may come up later, or at another speed.
  const bool congestion = config_.congestion.algorithm != CongestionAlgorithm::kNone;
  if (congestion || config_.lossless != 0) {
    const uint64_t speed = link_speed_mbps() * kMegabit;
    engine_->set_link_speed(speed);
    engine_->set_pause_speed(pause_speed(plan_, speed));
  }
  return engine_->turn(now);
}

uint32_t EndpointImpl::drive() {
  if (abandoned_ || config_.progress == Progress::kThread) return 0;
  const Instant now = clock_.now();
  last_driven_ns_.store(now.ns, std::memory_order_relaxed);
  const uint32_t work = turn(now);
  if (work != 0) {
    last_work_ = now;
    if (const int lay = left_lying_.load(std::memory_order_relaxed); lay != 0) [[unlikely]]
      left_lying_.store(lay - 1, std::memory_order_relaxed);
  } else if (now - last_work_ > kPatience) {
    yield_wanted_ = true;
  }
  return work;
}

void EndpointImpl::flush(Instant now) {
  if (!abandoned_) engine_->transmit(now);
}

void EndpointImpl::linger() {
  if (!engine_) return;
  // A program may end as soon as its last receive completed, before the peer got the acknowledgement.
  {
    const EngineLock owner(*this);
    const Instant end = clock_.now() + microseconds(200);
    while (clock_.now() < end) turn(clock_.now());
  }
  // What lies in shared memory is gone with this process: a peer that sleeps has to wake and read it first.
  if (plan_.options.wire) usleep(kWireLinger.ns / 1000);
}

/// What `uroce stats` would show for the last time.
void EndpointImpl::log_counters() {
  constexpr size_t kLineBytes = 800;
  std::string text;
  const auto add = [&text](const char* name, uint64_t value) {
    if (value == 0) return;
    if (text.size() > kLineBytes) log_message(LogLevel::kInfo, "counted: %s", std::exchange(text, {}).c_str());
    text += (text.empty() ? "" : ", ") + (name + (" " + std::to_string(value)));
  };
  for_each_counter(engine_->counters(), add);
  for_each_counter(port_->counters(), add);
  log_message(LogLevel::kInfo, "counted: %s", text.empty() ? "nothing" : text.c_str());
}

void EndpointImpl::finish() {
  if (abandoned_) return;
  publish_endpoint(nullptr);
  linger();
  if (capture_) {
    {
      const EngineLock owner(*this);
      engine_->set_capture(nullptr);
      capture_->begin_flush();
      log_counters();
    }
    capture_->finish_flush();
  } else if (engine_ && port_) {
    const EngineLock owner(*this);
    log_counters();
  }
}

bool with_published_endpoint(void (*f)(EndpointImpl&, Look, void*), void* context) {
  // A turn takes microseconds. Who is inside for longer than this is stuck, and that is what somebody wants to see.
  constexpr Duration kBusyPatience = milliseconds(200);
  const std::lock_guard guard(g_publishing);
  if (g_published == nullptr) return false;
  const bool inside = g_ownership.try_acquire_for(kBusyPatience);
  f(*g_published, inside ? Look::kInside : Look::kOutside, context);
  if (inside) g_ownership.release();
  return true;
}

void set_published_endpoint(EndpointImpl* endpoint) {
  const std::lock_guard guard(g_publishing);
  g_published = endpoint;
}

}  // namespace uroce
