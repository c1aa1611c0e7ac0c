#include "uroce/endpoint.h"

#include "api/connections_core.h"
#include "api/device_core.h"
#include "api/options.h"
#include "dpdk/endpoint.h"
#include "host/endpoint_options.h"

namespace uroce::rdma {

namespace {

Progress progress_of(Drive drive) {
  switch (drive) {
    case Drive::kProgram:
      return Progress::kInline;
    case Drive::kBackground:
      return Progress::kThread;
    case Drive::kBoth:
      return Progress::kAuto;
  }
  return Progress::kAuto;
}

}  // namespace

struct Endpoint::Opened {
  std::unique_ptr<uroce::Endpoint> endpoint;
};

Endpoint::Endpoint() : opened_(std::make_unique<Opened>()) {}

Endpoint::~Endpoint() = default;

std::unique_ptr<Endpoint> Endpoint::open(const EndpointOptions& options, EventListener* listener, std::string& error) {
  EndpointConfig config;
  if (!check_addresses(options.addresses, error) || !check_mtu(options.mtu, error)) return nullptr;
  if (!congestion_from(options.congestion, options.congestion_parameters, config.congestion, error)) return nullptr;
  if (!parse_faults(options.faults, config.faults, error)) return nullptr;
  config.port = options.port;
  config.addresses = options.addresses;
  config.eal_running = options.eal_running;
  config.eal_args = options.eal_args;
  config.pcap_file = options.pcap_file;
  config.progress = progress_of(options.drive);
  config.mtu = options.mtu;
  config.traffic_class = options.traffic_class;
  config.loss_recovery = options.loss_recovery;
  auto core = std::make_unique<DeviceCore>(listener);
  core->random = std::make_unique<SystemRandom>();
  std::unique_ptr<Endpoint> made(new Endpoint());
  made->opened_->endpoint = uroce::Endpoint::open(config, *core, error);
  if (made->opened_->endpoint == nullptr) return nullptr;
  core->endpoint = made->opened_->endpoint.get();
  core->engine = &made->opened_->endpoint->engine();
  made->device_.reset(new Device(std::move(core)));
  return made;
}

Endpoint::Ownership::Ownership(Endpoint& endpoint) : endpoint_(endpoint) { endpoint_.opened_->endpoint->lock(); }
Endpoint::Ownership::~Ownership() { endpoint_.opened_->endpoint->unlock(); }

uint32_t Endpoint::drive() { return opened_->endpoint->drive(); }
void Endpoint::transmit() { opened_->endpoint->transmit(); }

uint32_t Endpoint::wait(CompletionQueue& cq, std::span<Completion> out, Duration patience) {
  const Instant deadline = now() + patience;
  uint32_t count = cq.poll(out);
  while (count == 0 && now() < deadline) {
    drive();
    opened_->endpoint->unlock();  // lets other threads have the engine; when nothing happens, the CPU as well
    opened_->endpoint->lock();
    count = cq.poll(out);
  }
  return count;
}

Connections& Endpoint::connections() {
  if (connections_ == nullptr) {
    connections_.reset(new Connections(std::make_unique<ConnectionsCore>(*opened_->endpoint, *device_->core_)));
  }
  return *connections_;
}

std::vector<std::pair<std::string, uint64_t>> Endpoint::counters() const {
  std::vector<std::pair<std::string, uint64_t>> all;
  opened_->endpoint->for_each_counter([&all](const char* name, uint64_t value) { all.emplace_back(name, value); });
  return all;
}

Instant Endpoint::now() const { return opened_->endpoint->now(); }
bool Endpoint::link_up() const { return opened_->endpoint->link_up(); }
uint64_t Endpoint::link_speed_mbps() const { return opened_->endpoint->link_speed_mbps(); }
const std::string& Endpoint::port_name() const { return opened_->endpoint->port_name(); }

}  // namespace uroce::rdma
