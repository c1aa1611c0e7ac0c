#include "sim/world.h"

namespace uroce::sim {

Host& World::add_host(const EngineConfig& config) {
  hosts_.push_back(std::make_unique<Host>(events_, config, random_.next_u64()));
  return *hosts_.back();
}

Cable World::connect(Host& a, Host& b, const LinkConfig& config) {
  links_.push_back(std::make_unique<Link>(events_, random_, b.port(), config));
  links_.push_back(std::make_unique<Link>(events_, random_, a.port(), config));
  Cable cable{links_[links_.size() - 2].get(), links_.back().get()};
  a.port().connect(*cable.a_to_b);
  b.port().connect(*cable.b_to_a);
  return cable;
}

void World::kick_all() {
  for (const auto& host : hosts_) host->kick();
}

bool World::run_until_idle(Duration limit) {
  const Instant end = now() + limit;
  kick_all();
  while (!events_.empty()) {
    if (events_.next() > end) return false;
    events_.step();
  }
  return true;
}

void World::run_for(Duration duration) {
  const Instant end = now() + duration;
  kick_all();
  while (events_.next() <= end) events_.step();
  events_.advance_to(end);
}

EngineConfig simple_config(uint8_t n) {
  EngineConfig config;
  config.mac = MacAddress{{0x02, 0, 0, 0, 0, n}};
  IpAddress v6;
  v6.bytes[0] = 0xfd;
  v6.bytes[15] = n;
  config.addresses = {{IpAddress::v4(0x0A000000u | n), 24, 0}, {v6, 64, 0}};
  config.max_qps = 64;
  config.max_regions = 1024;
  return config;
}

}  // namespace uroce::sim
