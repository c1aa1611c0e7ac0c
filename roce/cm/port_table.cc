#include "cm/port_table.h"

#include <algorithm>
#include <cerrno>

#include "cm/cma_header.h"

namespace uroce::cm {

namespace {

constexpr uint16_t kFirstEphemeral = 32768;
constexpr uint32_t kEphemeralPorts = 28232;  // 32768..60999, as Linux has them

bool hinders(const IdState& other, const IdState& id, bool reuse_addr) {
  if (reuse_addr && other.options.reuse_addr) return false;
  const bool other_family = other.local.family != id.local.family;
  return !(other_family && other.options.af_only && id.options.af_only);
}

/// 0, or why `id` cannot have the port beside those that have it.
int check(const std::vector<Id*>& ids, Id& id, bool reuse_addr) {
  for (Id* other : ids) {
    if (other == &id || !hinders(other->state(), id.state(), reuse_addr)) continue;
    const SocketAddress& theirs = other->state().local;
    const SocketAddress& ours = id.state().local;
    if (theirs.is_any() || ours.is_any()) return EADDRNOTAVAIL;
    if (theirs.ip == ours.ip) return EADDRINUSE;
  }
  return 0;
}

bool serves(const IdState& listener, const IpAddress& address) {
  if (!listener.local.is_any()) return listener.local.ip == address;
  if (!listener.options.af_only || listener.local.family == SocketAddress::Family::kIb) return true;
  return (listener.local.family == SocketAddress::Family::kV4) == address.is_v4();
}

}  // namespace

int PortTable::bind(Id& id) {
  IdState& state = id.state();
  if (state.local.family == SocketAddress::Family::kIb) {
    if (state.local.service_id_mask == 0) state.local.service_id_mask = ~uint64_t{0};
    const uint64_t service_id = state.local.service_id & state.local.service_id_mask;
    if (!is_port_service(service_id)) return take(id, service_id, state.local.service_id_mask);
    state.local.port = static_cast<uint16_t>(service_id & kServicePortMask);
  }
  if (state.local.port == 0) return take_free_port(id);
  return take(id, service_id_of(state.port_space, state.local.port), ~uint64_t{0});
}

int PortTable::take_free_port(Id& id) {
  IdState& state = id.state();
  const uint32_t start = services_.random() % kEphemeralPorts;
  for (uint32_t i = 0; i < kEphemeralPorts; i++) {
    const auto port = static_cast<uint16_t>(kFirstEphemeral + (start + i) % kEphemeralPorts);
    const uint64_t service_id = service_id_of(state.port_space, port);
    if (holders_.contains(service_id)) continue;
    const int error = take(id, service_id, ~uint64_t{0});
    if (error == EADDRINUSE) continue;
    if (error != 0) return error;
    state.local.port = port;
    if (state.local.family == SocketAddress::Family::kIb) state.local.service_id = service_id;
    return 0;
  }
  return EADDRNOTAVAIL;
}

int PortTable::take(Id& id, uint64_t service_id, uint64_t mask) {
  const auto it = holders_.find(service_id);
  if (it == holders_.end()) {
    Holders holders{.ids = {&id}, .listeners = 0, .mask = mask};
    const auto added = holders_.emplace(service_id, std::move(holders)).first;  // done first: memory may run out
    int error = ENOMEM;
    try {
      error = services_.claim_service(service_id);
    } catch (const std::bad_alloc&) {  // ENOMEM
    }
    if (error != 0) {
      holders_.erase(added);
      return error;
    }
    if (mask != ~uint64_t{0}) masked_++;
  } else {
    if (const int error = check(it->second.ids, id, id.state().options.reuse_addr)) return error;
    it->second.ids.push_back(&id);
  }
  id.state().port_held = service_id;
  return 0;
}

int PortTable::listen(Id& id) {
  IdState& state = id.state();
  Holders& holders = holders_.at(*state.port_held);
  if (state.options.reuse_addr) {
    if (check(holders.ids, id, false) != 0) return EADDRINUSE;
    state.options.reuse_addr = false;
  }
  if (holders.listeners == 0) {
    if (const int error = services_.listen(*state.port_held, holders.mask)) return error;
  }
  holders.listeners++;
  return 0;
}

void PortTable::release(Id& id) {
  IdState& state = id.state();
  if (!state.port_held) return;
  const uint64_t service_id = *state.port_held;
  state.port_held.reset();
  Holders& holders = holders_.at(service_id);
  if (state.phase == IdState::Phase::kListen && --holders.listeners == 0) {
    services_.unlisten(service_id, holders.mask);
  }
  std::erase(holders.ids, &id);
  if (!holders.ids.empty()) return;
  if (holders.mask != ~uint64_t{0}) masked_--;
  holders_.erase(service_id);
  services_.release_service(service_id);
}

Id* PortTable::find_listener(uint64_t service_id, const IpAddress& address) const {
  Id* found = nullptr;
  const auto consider = [&](const Holders& holders) {
    for (Id* id : holders.ids) {
      const IdState& state = id->state();
      if (state.phase != IdState::Phase::kListen || !serves(state, address)) continue;
      if (found == nullptr || !state.local.is_any()) found = id;
    }
  };
  const auto exact = holders_.find(service_id);
  if (exact != holders_.end()) consider(exact->second);
  if (found != nullptr || masked_ == 0) return found;
  for (const auto& [id, holders] : holders_) {
    if ((service_id & holders.mask) == (id & holders.mask)) consider(holders);
  }
  return found;
}

}  // namespace uroce::cm
