#include "script/manager.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "script/mads.h"
#include "script/text.h"
#include "transport/qp.h"

namespace uroce::script {

namespace {

constexpr uint64_t kDefaultPort = 7000;
constexpr std::string_view kCmPrefix = "cm_";

struct CmEventName {
  std::string_view name;
  cm::EventType type;
};
constexpr CmEventName kCmEvents[] = {
    {"address_error", cm::EventType::kAddrError},    {"request", cm::EventType::kConnectRequest},
    {"response", cm::EventType::kConnectResponse},   {"connect_error", cm::EventType::kConnectError},
    {"unreachable", cm::EventType::kUnreachable},    {"rejected", cm::EventType::kRejected},
    {"established", cm::EventType::kEstablished},    {"disconnected", cm::EventType::kDisconnected},
    {"timewait_exit", cm::EventType::kTimewaitExit},
};
constexpr std::string_view kCmActions[] = {"listen",     "connect",     "accept", "reject",
                                           "disconnect", "established", "destroy"};
constexpr std::string_view kCmTraffic[] = {"cm_rx_mads", "cm_tx_mads", "cm_requests", "cm_established", "cm_ended"};

struct ErrnoName {
  std::string_view name;
  int number;
};
constexpr ErrnoName kErrnos[] = {{"EINVAL", EINVAL},
                                 {"EADDRINUSE", EADDRINUSE},
                                 {"EISCONN", EISCONN},
                                 {"ENETUNREACH", ENETUNREACH},
                                 {"EADDRNOTAVAIL", EADDRNOTAVAIL}};

std::string errno_text(int number) {
  for (const ErrnoName& known : kErrnos) {
    if (known.number == number) return std::string(known.name);
  }
  return number == 0 ? "accepted" : std::to_string(number);
}

cm::PrivateData private_data_of(const Statement& statement) {
  const Option* data = statement.find("data");
  if (data == nullptr) return {};
  return cm::PrivateData(hex_word(data->value));
}

cm::ConnParam param_of(const Statement& statement, int64_t round, const ScriptQps& qps) {
  cm::ConnParam param;
  const auto number = [&](const char* name, uint64_t otherwise) {
    return static_cast<uint8_t>(fitting(statement, name, otherwise, round, 8));
  };
  param.private_data = private_data_of(statement);
  param.responder_resources = number("resources", 1);
  param.initiator_depth = number("depth", 1);
  param.retry_count = number("retry_cnt", 7);
  param.rnr_retry_count = number("rnr_retry", 7);
  param.qkey = static_cast<uint32_t>(fitting(statement, "qkey", 0, round, 32));
  param.qpn = static_cast<uint32_t>(fitting(statement, "qpn", 0x500, round, 24));
  if (const Option* qp = statement.find("qp")) {
    const auto found = qps.find(static_cast<uint32_t>(qp->value.number.at(round)));
    if (found == qps.end() || found->second->qp == nullptr) throw ScriptError(qp->where, "there is no such qp");
    param.qpn = found->second->qp->qpn();
  }
  return param;
}

}  // namespace

Manager::Manager(Engine& engine, RandomSource& random)
    : engine_cm_(engine, random, static_cast<cm::EventSink&>(*this), kOwnId) {}

uint32_t Manager::number_of(const cm::Id* id) const {
  for (const auto& [number, known] : ids_) {
    if (known == id) return number;
  }
  return 0;
}

bool Manager::on_cm_event(const cm::Event& event) {
  const bool on_its_way = event.type == cm::EventType::kAddrResolved || event.type == cm::EventType::kRouteResolved;
  if (on_its_way) {
    steps_.push_back(event);
  } else {
    events_.push_back({now_, event});
  }
  return true;
}

void Manager::on_turn(Instant now) {
  now_ = now;
  engine_cm_.on_turn(now);
  for (; !steps_.empty(); steps_.pop_front()) {
    cm::Id& id = *steps_.front().id;
    if (steps_.front().type == cm::EventType::kAddrResolved) {
      engine_cm_.manager().resolve_route(id, milliseconds(2000), now);
    } else if (connecting_.contains(&id)) {
      engine_cm_.manager().connect(id, connecting_.at(&id), {}, now);
    }
  }
}

/// `listen` and `connect` make the Id.
int Manager::begin(const Statement& statement, uint32_t number, int64_t round, const cm::ConnParam& param,
                   const IpAddress& peer, Instant now) {
  cm::RdmaCm& manager = engine_cm_.manager();
  const bool datagram = statement.has("udp");
  cm::Id* id = manager.create_id(datagram ? cm::PortSpace::kUdp : cm::PortSpace::kTcp,
                                 datagram              ? QpType::kUd
                                 : statement.has("uc") ? QpType::kUc
                                                       : QpType::kRc,
                                 nullptr);
  if (id == nullptr) return ENOMEM;
  ids_[number] = id;
  cm::SocketAddress address;
  address.family = peer.is_v4() ? cm::SocketAddress::Family::kV4 : cm::SocketAddress::Family::kV6;
  address.port = static_cast<uint16_t>(fitting(statement, "port", kDefaultPort, round, 16));
  if (statement.word == "connect") {
    address.ip = peer;
    connecting_[id] = param;
    return manager.resolve_addr(*id, nullptr, address, milliseconds(2000), now);
  }
  address.ip = peer.is_v4() ? IpAddress::v4(0) : IpAddress{};
  const int error = manager.bind(*id, address);
  return error != 0 ? error : manager.listen(*id, 1024);
}

int Manager::go_on(const Statement& statement, cm::Id& id, int64_t round, const cm::ConnParam& param, Instant now) {
  cm::RdmaCm& manager = engine_cm_.manager();
  if (statement.word == "accept") return manager.accept(id, statement.has("rtu") ? nullptr : &param, {}, now);
  if (statement.word == "disconnect") return manager.disconnect(id, now);
  if (statement.word == "established") return manager.notify(id, cm::kEventCommEst, now);
  return manager.reject(id, param.private_data, static_cast<uint8_t>(fitting(statement, "reason", 0, round, 8)), now);
}

void Manager::destroy(uint32_t number, Instant now) {
  cm::Id* const id = ids_.at(number);
  std::erase_if(events_, [&](const Seen& seen) { return seen.event.id == id; });
  std::erase_if(steps_, [&](const cm::Event& event) { return event.id == id; });
  connecting_.erase(id);
  ids_.erase(number);
  engine_cm_.manager().destroy_id(id, now);
}

std::string Manager::act(const Statement& statement, int64_t round, const ScriptQps& qps, const IpAddress& peer,
                         Instant now) {
  now_ = now;
  const auto number = static_cast<uint32_t>(statement.args[0].number.at(round));
  const bool begins = statement.word == "listen" || statement.word == "connect";
  if (number == 0 || begins == ids_.contains(number)) {
    throw ScriptError(statement.args[0].where, begins ? "this number is taken, or 0" : "there is no such id");
  }
  if (statement.word == "destroy") {
    destroy(number, now);
    return "";
  }
  const cm::ConnParam param = param_of(statement, round, qps);
  const int error = begins ? begin(statement, number, round, param, peer, now)
                           : go_on(statement, *ids_.at(number), round, param, now);
  const Option* refused = statement.find("refused");
  const std::string expected = refused != nullptr ? refused->value.text : "accepted";
  const std::string actual = errno_text(error);
  return expected == actual ? "" : "this call is " + actual + ", and not " + expected;
}

std::optional<cm::EventType> cm_event_of(std::string_view name) {
  for (const CmEventName& known : kCmEvents) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

std::string cm_event_name(cm::EventType type) {
  for (const CmEventName& known : kCmEvents) {
    if (known.type == type) return std::string(known.name);
  }
  return "event " + std::to_string(static_cast<unsigned>(type));
}

std::string cm_event_text(const cm::Event& event, const Manager& manager) {
  std::string text = format("cm_event %u ", manager.number_of(event.id)) + cm_event_name(event.type);
  if (event.status != 0) text += format(" status %d", event.status);
  return text;
}

std::vector<FieldCheck> compare_cm_event(const Statement& statement, int64_t round, const cm::Event& event,
                                         const Manager& manager) {
  std::vector<FieldCheck> rows;
  const auto row = [&](const char* field, const std::string& expected, const std::string& actual) {
    rows.push_back({field, expected, actual, expected == actual});
  };
  const auto number = [&](const char* field, int64_t actual, bool always) {
    if (always || statement.has(field)) {
      row(field, std::to_string(statement.number(field, 0, round)), std::to_string(actual));
    }
  };
  row("event", statement.word, cm_event_name(event.type));
  row("id", std::to_string(statement.args[0].number.at(round)), std::to_string(manager.number_of(event.id)));
  number("status", event.status, true);
  number("of", manager.number_of(event.listener), false);
  number("qpn", event.is_datagram ? event.datagram.qpn : event.connection.qpn, false);
  number("resources", event.connection.responder_resources, false);
  number("depth", event.connection.initiator_depth, false);
  if (const Option* data = statement.find("data")) {
    const cm::PrivateData& given = event.is_datagram ? event.datagram.private_data : event.connection.private_data;
    row("data", bytes_word(hex_word(data->value)), bytes_word(given.view()));  // all of it: behind it are zeros
  }
  return rows;
}

bool is_cm_action(std::string_view name) {
  return std::find(std::begin(kCmActions), std::end(kCmActions), name) != std::end(kCmActions);
}

std::optional<uint64_t> cm_counter(const cm::CmCounters& counters, std::string_view name) {
  std::optional<uint64_t> found;
  if (!name.starts_with(kCmPrefix)) return found;
  cm::for_each_counter(counters, [&](const char* known, uint64_t value) {
    if (name.substr(kCmPrefix.size()) == known) found = value;
  });
  return found;
}

bool is_cm_counter(std::string_view name) { return cm_counter({}, name).has_value(); }

bool must_be_mentioned(std::string_view name) {
  return std::find(std::begin(kCmTraffic), std::end(kCmTraffic), name) == std::end(kCmTraffic);
}

}  // namespace uroce::script
