#include "sim/world.h"

namespace uroce::sim {

namespace {

enum Stream : uint32_t { kHosts, kLinks, kSwitches };

}  // namespace

SeededRandom World::stream(uint32_t kind, size_t number) const {
  SeededRandom root(seed_ + uint64_t{kind} * 0x632BE59BD9B4E019u);
  return SeededRandom(root.next_u64() + number * 0xD1342543DE82EF95u);
}

Host& World::add_host(const EngineConfig& config) {
  hosts_.push_back(std::make_unique<Host>(events_, config, stream(kHosts, hosts_.size()).next_u64()));
  return *hosts_.back();
}

SimSwitch& World::add_switch(const fabric::SwitchConfig& config) {
  SeededRandom random = stream(kSwitches, switches_.size());
  switches_.push_back(std::make_unique<SimSwitch>(events_, config, random));
  return *switches_.back();
}

Link& World::add_link(FrameSink& to, const LinkConfig& config) {
  SeededRandom random = stream(kLinks, links_.size());
  links_.push_back(std::make_unique<Link>(events_, random, to, config));
  return *links_.back();
}

Cable World::connect(Host& a, Host& b, const LinkConfig& config) {
  Link& forth = add_link(b.port(), config);
  Link& back = add_link(a.port(), config);
  const Cable cable{&forth, &back};
  a.port().connect(*cable.a_to_b);
  b.port().connect(*cable.b_to_a);
  return cable;
}

void World::wake_all() {
  for (const auto& host : hosts_) host->wake();
}

bool World::run_until_idle(Duration limit) {
  const Instant end = now() + limit;
  wake_all();
  while (!events_.empty()) {
    if (events_.next() > end) return false;
    events_.step();
  }
  return true;
}

void World::run_for(Duration duration) {
  const Instant end = now() + duration;
  wake_all();
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
