#include "network.h"

#include <algorithm>
#include <cerrno>
#include <limits>

namespace uroce::cm::test {

Host::Host(Network& network, std::string name, uint64_t guid, std::vector<LocalAddress> addresses,
           const CmLimits& limits)
    : network_(network), name_(std::move(name)), guid_(guid), addresses_(std::move(addresses)), random_(guid) {
  restart(limits);
}

void Host::restart(const CmLimits& limits) {
  events_.clear();
  claimed.clear();
  listening.clear();
  cm_ = std::make_unique<RdmaCm>(*this, *this, limits);
}

bool Host::has(const IpAddress& ip) const {
  return std::any_of(addresses_.begin(), addresses_.end(), [&](const LocalAddress& a) { return a.ip == ip; });
}

std::optional<Event> Host::next_event() {
  if (events_.empty()) return std::nullopt;
  const Event event = events_.front();
  events_.pop_front();
  return event;
}

std::vector<Id*> Host::forget_events_of(const Id* id) {
  std::vector<Id*> children;
  for (const Event& event : events_) {
    if (event.listener == id) children.push_back(event.id);
  }
  const auto names = [&](const Event& event) {
    return event.id == id || event.listener == id ||
           std::find(children.begin(), children.end(), event.id) != children.end();
  };
  std::erase_if(events_, names);
  return children;
}

bool Host::on_cm_event(const Event& event) {
  if (taken && !taken(event)) return false;
  events_.push_back(event);
  return true;
}

int Host::claim_service(uint64_t service_id) {
  return !services_of_others.contains(service_id) && claimed.insert(service_id).second ? 0 : EADDRINUSE;
}

uint32_t Host::draw_communication_id() {
  if (next_ids.empty()) return random_.next_u32();
  const uint32_t id = next_ids.front();
  next_ids.pop_front();
  return id;
}

void Host::send_mad(const AddressVector& av, std::span<const uint8_t, kMadBytes> mad, Instant) {
  Flying flying{.src = addresses_.at(av.sgid_index).ip,
                .dst = av.dgid,
                .vlan_id = addresses_.at(av.sgid_index).vlan_id,
                .traffic_class = av.traffic_class};
  std::copy(mad.begin(), mad.end(), flying.mad.begin());
  network_.send(flying);
}

std::optional<ResolvedRoute> Host::find_route(const IpAddress& src, const IpAddress& dst, uint32_t) {
  const bool any_src = src.is_zero() || src == IpAddress::v4(0) || src.is_loopback();
  if (unreachable == dst) return std::nullopt;
  const bool to_self = dst.is_loopback() || has(dst);
  for (size_t i = 0; i < addresses_.size(); i++) {
    const LocalAddress& own = addresses_[i];
    if (!any_src && own.ip != src) continue;
    if (any_src && !to_self && !dst.is_multicast() && !own.on_link(dst)) continue;
    if (own.ip.is_v4() != dst.is_v4()) continue;
    if (any_src && has(dst) && own.ip != dst) continue;
    ResolvedRoute way{.sgid_index = static_cast<uint8_t>(i), .source = own, .av = {}, .mtu_bytes = mtu_bytes};
    way.av.dgid = dst.is_loopback() ? own.ip : dst;
    way.av.sgid_index = way.sgid_index;
    return way;
  }
  return std::nullopt;
}

Services::Neighbour Host::resolve(const ResolvedRoute&, Instant) {
  asked++;
  return neighbours_known ? Neighbour::kKnown : Neighbour::kAsked;
}

Host& Network::add_host(const std::string& name, const std::vector<std::string>& addresses, const CmLimits& limits) {
  std::vector<LocalAddress> parsed;
  for (const std::string& text : addresses) parsed.push_back(parse_local_address(text).value());
  const uint64_t guid = 0x0200000000000000u + hosts_.size() + 1;
  hosts_.push_back(std::make_unique<Host>(*this, name, guid, parsed, limits));
  return *hosts_.back();
}

void Network::send(Flying flying) {
  if (keep_sent) sent.push_back(flying);
  if (passes && !passes(flying)) return;
  const unsigned copies = 1 + (random_.below(1000) < repeated ? 1 + random_.below(2) : 0);
  for (unsigned i = 0; i < copies; i++) {
    if (random_.below(1000) < lost) continue;
    Duration flight = microseconds(10);
    if (random_.below(1000) < delayed) flight = microseconds(10 + random_.below(2'000'000));
    flying_.emplace(now_ + flight, flying);
  }
}

void Network::deliver(const Flying& flying) {
  for (const auto& host : hosts_) {
    if (!host->has(flying.dst)) continue;
    host->cm().on_mad({.src_ip = flying.src,
                       .dst_ip = flying.dst,
                       .vlan_id = flying.vlan_id,
                       .traffic_class = flying.traffic_class,
                       .bytes = flying.mad},
                      now_);
    return;
  }
}

Instant Network::next_step() const {
  Instant next = flying_.empty() ? Instant::never() : flying_.begin()->first;
  for (const auto& host : hosts_) next = std::min(next, host->cm().next_timeout());
  return next;
}

void Network::step(Instant at) {
  now_ = std::max(now_, at);
  while (!flying_.empty() && flying_.begin()->first <= now_) {
    const Flying flying = flying_.begin()->second;
    flying_.erase(flying_.begin());
    deliver(flying);
  }
  for (const auto& host : hosts_) host->cm().run_timers(now_);
}

void Network::run_until(Instant until, const std::function<void()>& between) {
  if (between) between();
  while (next_step() <= until) {
    step(next_step());
    if (between) between();
  }
  now_ = until;
}

bool Network::run_until_quiet(Duration limit, const std::function<void()>& between) {
  const Instant until = now_ + limit;
  if (between) between();
  while (next_step() != Instant::never()) {
    if (next_step() > until) return false;
    step(next_step());
    if (between) between();
  }
  return true;
}

std::vector<Attribute> attributes_of(const std::vector<Flying>& sent) {
  std::vector<Attribute> attributes;
  for (const Flying& flying : sent) {
    MadHeader header;
    if (decode(flying.mad, header) == HeaderFault::kNone) attributes.push_back(header.attribute);
  }
  return attributes;
}

SocketAddress v4(const std::string& text, uint16_t port) {
  return {.family = SocketAddress::Family::kV4, .ip = parse_ip(text).value(), .port = port};
}

SocketAddress v6(const std::string& text, uint16_t port) {
  return {.family = SocketAddress::Family::kV6, .ip = parse_ip(text).value(), .port = port};
}

std::string text_of(EventType type) {
  static const char* const kNames[] = {"addr-resolved",  "addr-error",      "route-resolved", "route-error",
                                       "request",        "response",        "connect-error",  "unreachable",
                                       "rejected",       "established",     "disconnected",   "device-removal",
                                       "multicast-join", "multicast-error", "addr-change",    "timewait-exit"};
  return kNames[static_cast<size_t>(type)];
}

}  // namespace uroce::cm::test
