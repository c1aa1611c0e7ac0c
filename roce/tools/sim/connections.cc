#include "sim/connections.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine_cm/engine_cm.h"
#include "sim/testbed.h"
#include "sim/trace_hash.h"
#include "transport/counters.h"

namespace uroce::sim {

namespace {

constexpr uint16_t kPort = 7000;
constexpr uint32_t kCallsPerTurn = 16;  // of the program: more leave in the next one

class HashTap final : public LinkTap {
 public:
  void on_arrival(uint32_t link, Instant now, std::span<const uint8_t> frame) override {
    hash_.on_passing(link, now, frame);
  }
  uint64_t value() const { return hash_.value(); }

 private:
  TraceHash hash_;
};

/// A program on a host: connects or accepts, and disconnects, driven by events as a program with librdmacm is.
class Party final : public cm::EventSink {
 public:
  Party(Host& host, uint64_t seed)
      : host_(host), random_(seed), cm_(host.engine(), random_, static_cast<cm::EventSink&>(*this)) {
    host.set_program([this] { run(); });
    host.set_deadline([this] { return std::min(cm_.next_timeout(), next_start()); });
  }

  void listen();
  /// Begins `count` connections, `per_second` of them a second.
  void connect(uint32_t count, uint64_t per_second, const IpAddress& to);
  void disconnect_all();

  bool decided() const { return to_begin_ == 0 && established.size() + failed == begun_; }
  bool at_rest() { return decided() && cm_.manager().connection_count() == established.size(); }
  size_t remembered() { return cm_.manager().connection_count(); }
  const cm::CmCounters& counters() { return cm_.manager().counters(); }
  /// Ends at `since` if no connection was made.
  Duration coming_up(Instant since) const { return last_ == Instant{} ? Duration{} : last_ - since; }

  std::set<cm::Id*> established;
  uint32_t failed = 0;
  std::vector<int64_t> times_ns;  // of connections that came up, from request to RTU

 private:
  bool on_cm_event(const cm::Event& event) override {
    events_.push_back(event);
    return true;
  }
  Instant next_start() const;
  bool may_begin() const { return to_begin_ != 0 && next_start() <= host_.now(); }
  void run();
  void begin_some();
  void end_some();
  void on_event(const cm::Event& event);
  void stand(cm::Id* id);
  void destroy(cm::Id* id);

  Host& host_;
  SeededRandom random_;
  EngineCm cm_;
  std::deque<cm::Event> events_;
  std::map<cm::Id*, Instant> begun_at_;
  std::vector<cm::Id*> to_end_;
  cm::SocketAddress to_;
  uint32_t to_begin_ = 0;
  uint32_t begun_ = 0;
  Duration interval_{};
  Instant first_start_ = Instant::never();
  Instant last_{};
  uint32_t next_qpn_ = 0x100;
};

void Party::listen() {
  cm::Id* const id = cm_.manager().create_id(cm::PortSpace::kTcp, QpType::kRc, nullptr);
  cm::SocketAddress any;
  any.family = cm::SocketAddress::Family::kV4;
  any.ip = IpAddress::v4(0);
  any.port = kPort;
  cm_.manager().bind(*id, any);
  cm_.manager().listen(*id, 1 << 16);
}

void Party::connect(uint32_t count, uint64_t per_second, const IpAddress& to) {
  to_.family = cm::SocketAddress::Family::kV4;
  to_.ip = to;
  to_.port = kPort;
  to_begin_ = count;
  interval_ = {per_second == 0 ? 0 : static_cast<int64_t>(1'000'000'000 / per_second)};
  first_start_ = host_.now();
  host_.wake();
}

Instant Party::next_start() const {
  const bool found = begun_ == 0 || !established.empty() || failed != 0;
  if (to_begin_ == 0 || !found) return to_end_.empty() ? Instant::never() : Instant{};
  return first_start_ + Duration{interval_.ns * begun_};
}

void Party::disconnect_all() {
  to_end_.assign(established.begin(), established.end());
  // Not by address, which differs from run to run.
  std::sort(to_end_.begin(), to_end_.end(),
            [](const cm::Id* a, const cm::Id* b) { return a->local().port < b->local().port; });
  host_.wake();
}

void Party::run() {
  cm_.on_turn(host_.now());
  while (!events_.empty()) {
    const cm::Event event = events_.front();
    events_.pop_front();
    on_event(event);
  }
  begin_some();
  end_some();
}

/// Until the first one has resolved its peer's MAC, the others wait: no program resolves an address ten thousand times.
void Party::begin_some() {
  for (uint32_t i = 0; i < kCallsPerTurn && may_begin(); i++) {
    cm::Id* const id = cm_.manager().create_id(cm::PortSpace::kTcp, QpType::kRc, nullptr);
    to_begin_--;
    begun_++;
    begun_at_[id] = host_.now();
    if (cm_.manager().resolve_addr(*id, nullptr, to_, milliseconds(2000), host_.now()) != 0) destroy(id), failed++;
    while (!events_.empty()) {  // a known neighbour: the REQ leaves at once
      const cm::Event event = events_.front();
      events_.pop_front();
      on_event(event);
    }
  }
  if (may_begin()) host_.wake();
}

void Party::end_some() {
  for (uint32_t i = 0; i < kCallsPerTurn && !to_end_.empty(); i++) {
    if (established.contains(to_end_.back())) cm_.manager().disconnect(*to_end_.back(), host_.now());
    to_end_.pop_back();
  }
}

void Party::stand(cm::Id* id) {
  established.insert(id);
  last_ = host_.now();
  const auto begun = begun_at_.find(id);
  if (begun != begun_at_.end()) times_ns.push_back((host_.now() - begun->second).ns);
}

void Party::destroy(cm::Id* id) {
  established.erase(id);
  begun_at_.erase(id);
  std::erase_if(events_, [id](const cm::Event& event) { return event.id == id; });
  cm_.manager().destroy_id(id, host_.now());
}

void Party::on_event(const cm::Event& event) {
  cm::RdmaCm& manager = cm_.manager();
  cm::ConnParam param;
  param.responder_resources = param.initiator_depth = 1;
  param.retry_count = param.rnr_retry_count = 7;
  switch (event.type) {
    case cm::EventType::kAddrResolved:
      manager.resolve_route(*event.id, milliseconds(2000), host_.now());
      return;
    case cm::EventType::kRouteResolved:
      param.qpn = next_qpn_++;
      manager.connect(*event.id, param, {}, host_.now());
      return;
    case cm::EventType::kConnectRequest:
      param.qpn = next_qpn_++;
      if (manager.accept(*event.id, &param, {}, host_.now()) != 0) destroy(event.id);
      return;
    case cm::EventType::kConnectResponse:
      if (manager.accept(*event.id, nullptr, {}, host_.now()) == 0) stand(event.id);
      return;
    case cm::EventType::kEstablished:
      return stand(event.id);
    case cm::EventType::kDisconnected:
      established.erase(event.id);
      manager.disconnect(*event.id, host_.now());
      return;
    case cm::EventType::kTimewaitExit:
      return destroy(event.id);
    default:  // unreachable, rejected, no address
      if (begun_at_.contains(event.id)) failed++;
      return destroy(event.id);
  }
}

Duration part_of(const std::vector<int64_t>& sorted, double part) {
  if (sorted.empty()) return {};
  const auto at = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return {sorted[std::min(sorted.size() - 1, at == 0 ? 0 : at - 1)]};
}

}  // namespace

double ConnectionsReport::per_second() const {
  return coming_up.ns == 0 ? 0 : 1e9 * established / static_cast<double>(coming_up.ns);
}

ConnectionsReport run_connections(const ConnectionsOptions& options) {
  Testbed bed(options.seed, options.link);
  HashTap tap;
  bed.cable.a_to_b->set_tap(&tap, 0);
  bed.cable.b_to_a->set_tap(&tap, 1);
  Party client(bed.a, options.seed * 2 + 1);
  Party server(bed.b, options.seed * 2 + 2);
  server.listen();
  ConnectionsReport report;
  const Instant start = bed.world.now();
  client.connect(options.count, options.per_second, simple_config(2).addresses[0].ip);
  const auto at_rest = [&] {
    return client.decided() && client.at_rest() && server.remembered() == server.established.size();
  };
  const bool up = bed.world.run_until(at_rest, options.limit);
  report.established = static_cast<uint32_t>(client.established.size());
  report.failed = client.failed;
  const auto served = static_cast<uint32_t>(server.established.size());
  report.half_open = std::max(report.established, served) - std::min(report.established, served);
  report.coming_up = client.coming_up(start);
  std::sort(client.times_ns.begin(), client.times_ns.end());
  report.median = part_of(client.times_ns, 0.5);
  report.p99 = part_of(client.times_ns, 0.99);
  report.longest = part_of(client.times_ns, 1);
  bool down = false;
  if (up) {
    if (options.hold.ns != 0) bed.world.run_for(options.hold);
    const Instant hung_up = bed.world.now();
    client.disconnect_all();
    down = bed.world.run_until([&] { return client.remembered() + server.remembered() == 0; }, options.limit);
    report.going_down = bed.world.now() - hung_up;
  }
  report.left_over = static_cast<uint32_t>(up ? client.remembered() + server.remembered() : 0);
  report.client = client.counters();
  report.server = server.counters();
  for (Host* const host : {&bed.a, &bed.b}) report.datagrams_without_room += host->engine().counters().tx_drop_mad_full;
  report.hash = tap.value();
  if (!up) {
    report.failure = "connections do not come to rest";
  } else if (report.half_open != 0) {
    report.failure = std::to_string(report.half_open) + " connections are half open";
  } else if (!down || report.left_over != 0) {
    report.failure = std::to_string(report.left_over) + " connections are left over";
  }
  return report;
}

}  // namespace uroce::sim
