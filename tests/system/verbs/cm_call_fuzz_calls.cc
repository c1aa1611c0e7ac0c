// What is done with ids.
#include "cm_call_fuzz.h"

#include <utility>

namespace cm_fuzz {

namespace {

constexpr uint32_t kStrangerAddress = 0xc6336401;  // 198.51.100.1

sockaddr* as_sockaddr(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

sockaddr_in address_of(uint32_t address, uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(address);
  to.sin_port = htons(port);
  return to;
}

}  // namespace

/// Mostly that of a listener.
sockaddr_in Caller::some_address(bool datagram) {
  const Endpoint* const listener = any_in(Stage::kListen);
  const bool fits = listener != nullptr && listener->datagram == datagram && !random_.one_in(10);
  return address_of(INADDR_LOOPBACK,
                    fits ? ntohs(rdma_get_src_port(listener->id)) : static_cast<uint16_t>(20000 + random_.below(9)));
}

void Caller::bind() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(Stage::kIdle);
  if (endpoint == nullptr) return;
  constexpr uint32_t kHosts[] = {INADDR_ANY, INADDR_LOOPBACK, INADDR_LOOPBACK, kStrangerAddress};
  const uint32_t host = kHosts[random_.below(std::size(kHosts))];
  sockaddr_in address = address_of(host, 0);
  if (random_.one_in(10)) address.sin_family = AF_UNIX;
  Judge::begin("rdma_bind_addr");
  const int result = rdma_bind_addr(endpoint->id, as_sockaddr(address));
  if (endpoint->stage == Stage::kUnknown) return void(sane("rdma_bind_addr", result));
  const bool right = host != kStrangerAddress && address.sin_family == AF_INET;
  predicted("rdma_bind_addr", result, right && endpoint->stage == Stage::kIdle);
  if (result == 0) endpoint->stage = Stage::kBound;
}

void Caller::resolve_addr() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(random_.one_in(2) ? Stage::kIdle : Stage::kBound);
  if (endpoint == nullptr) return;
  sockaddr_in to = some_address(endpoint->datagram);
  const bool wrong = random_.one_in(10);
  if (wrong) to.sin_family = AF_UNIX;
  Judge::begin("rdma_resolve_addr");
  const int result = rdma_resolve_addr(endpoint->id, nullptr, as_sockaddr(to), 2000);
  if (endpoint->stage == Stage::kUnknown) return void(sane("rdma_resolve_addr", result));
  const bool may = endpoint->stage == Stage::kIdle || endpoint->stage == Stage::kBound;
  predicted("rdma_resolve_addr", result, may && !wrong);
  if (result == 0) endpoint->stage = Stage::kResolving;
}

void Caller::resolve_route() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(Stage::kAddrResolved);
  if (endpoint == nullptr || endpoint->id->verbs == nullptr) return;
  Judge::begin("rdma_resolve_route");
  const int result = rdma_resolve_route(endpoint->id, 2000);
  if (endpoint->stage == Stage::kUnknown) return void(sane("rdma_resolve_route", result));
  predicted("rdma_resolve_route", result,
            endpoint->stage == Stage::kAddrResolved || endpoint->stage == Stage::kResolving);
  if (result == 0) endpoint->stage = Stage::kRouteResolved;
}

void Caller::listen() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(Stage::kBound);
  if (endpoint == nullptr) return;
  Judge::begin("rdma_listen");
  const int result = rdma_listen(endpoint->id, static_cast<int>(random_.below(6)) - 1);
  if (endpoint->stage == Stage::kUnknown) return void(sane("rdma_listen", result));
  predicted("rdma_listen", result, endpoint->stage == Stage::kIdle || endpoint->stage == Stage::kBound);
  if (result == 0) endpoint->stage = Stage::kListen;
}

void Caller::connect() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(Stage::kRouteResolved);
  if (endpoint == nullptr || endpoint->id->verbs == nullptr) return;
  uint8_t data[256] = {};
  rdma_conn_param param{};
  param.private_data = random_.one_in(4) ? nullptr : data;
  param.private_data_len = static_cast<uint8_t>(random_.one_in(4) ? random_.bits() : 5);
  param.responder_resources = random_.one_in(4) ? static_cast<uint8_t>(random_.bits()) : uint8_t{1};
  param.retry_count = static_cast<uint8_t>(random_.bits());
  param.qp_num = 0x100000 + static_cast<uint32_t>(random_.below(0x100000));
  const bool without = random_.one_in(10);
  const bool easy = !without && (param.private_data_len <= 56 || param.private_data == nullptr) &&
                    (endpoint->datagram || param.responder_resources == 1);
  Judge::begin("rdma_connect");
  const int result = rdma_connect(endpoint->id, without ? nullptr : &param);
  const bool known = endpoint->stage != Stage::kUnknown && (easy || endpoint->stage != Stage::kRouteResolved);
  if (known) {
    predicted("rdma_connect", result, endpoint->stage == Stage::kRouteResolved);
  } else {
    sane("rdma_connect", result, endpoint->id);
  }
  if (result == 0 && endpoint->stage != Stage::kUnknown) endpoint->stage = Stage::kConnect;
}

void Caller::accept() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(Stage::kConnect);
  if (endpoint == nullptr || endpoint->id->verbs == nullptr) return;
  uint8_t data[256] = {};
  rdma_conn_param param{};
  param.private_data = data;
  param.private_data_len = static_cast<uint8_t>(random_.one_in(4) ? random_.bits() : 5);
  param.qp_num = 0x200000 + static_cast<uint32_t>(random_.below(0x100000));
  param.responder_resources = param.initiator_depth = random_.one_in(5) ? 255 : 1;
  const bool without = endpoint->id->qp != nullptr && random_.one_in(4);
  Judge::begin("rdma_accept");
  const int result = rdma_accept(endpoint->id, without ? nullptr : &param);
  const bool cannot = endpoint->stage != Stage::kConnect && endpoint->stage != Stage::kUnknown;
  if (sane("rdma_accept", result) && cannot) judge_.problem("rdma_accept", "of no connection", 0);
}

void Caller::reject() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(Stage::kConnect);
  if (endpoint == nullptr || !random_.one_in(3)) return;
  uint8_t data[256] = {};
  Judge::begin("rdma_reject");
  const int result = rdma_reject(endpoint->id, random_.one_in(3) ? nullptr : data,
                                 static_cast<uint8_t>(random_.one_in(3) ? random_.bits() : 9));
  const bool cannot = endpoint->stage != Stage::kConnect && endpoint->stage != Stage::kUnknown;
  if (sane("rdma_reject", result) && cannot) judge_.problem("rdma_reject", "of no connection", 0);
}

void Caller::disconnect() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(Stage::kConnect);
  if (endpoint == nullptr || !random_.one_in(3)) return;
  Judge::begin("rdma_disconnect");
  const int result = rdma_disconnect(endpoint->id);
  if (endpoint->stage == Stage::kConnect) return predicted("rdma_disconnect", result, true);
  sane("rdma_disconnect", result, endpoint->id);
}

void Caller::establish() {
  Endpoint* const endpoint = random_.one_in(3) ? any() : any_in(Stage::kConnect);
  if (endpoint == nullptr) return;
  Judge::begin("rdma_establish");
  if (random_.one_in(2)) return void(sane("rdma_establish", rdma_establish(endpoint->id)));
  sane("rdma_notify", rdma_notify(endpoint->id, random_.one_in(3) ? IBV_EVENT_PATH_MIG : IBV_EVENT_COMM_EST));
}

void Caller::create_qp() {
  Endpoint* const endpoint = any();
  if (endpoint == nullptr || endpoint->id->verbs == nullptr) return;
  ibv_qp_init_attr attr{};
  attr.cap = {static_cast<uint32_t>(random_.below(5)), static_cast<uint32_t>(random_.below(5)), 1, 1, 0};
  if (random_.one_in(10)) attr.cap.max_send_wr = static_cast<uint32_t>(random_.bits());
  attr.qp_type = random_.one_in(10) ? IBV_QPT_UC : endpoint->id->qp_type;
  const bool has_one = endpoint->id->qp != nullptr;
  Judge::begin("rdma_create_qp");
  const int result = rdma_create_qp(endpoint->id, nullptr, &attr);
  if (sane("rdma_create_qp", result) && has_one) judge_.problem("rdma_create_qp", "a second one", 0);
}

void Caller::destroy_qp() {
  Endpoint* const endpoint = any();
  if (endpoint == nullptr || endpoint->id->qp == nullptr) return;
  Judge::begin("rdma_destroy_qp");
  rdma_destroy_qp(endpoint->id);
}

void Caller::join() {
  Endpoint* const endpoint = any();
  if (endpoint == nullptr || (!endpoint->datagram && !random_.one_in(4))) return;
  sockaddr_in group = address_of(0xefc00000 + static_cast<uint32_t>(random_.below(4)), 0);
  rdma_cm_join_mc_attr_ex attr{};
  attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  attr.join_flags = random_.one_in(5) ? static_cast<uint32_t>(random_.below(4)) : 0;
  attr.addr = as_sockaddr(group);
  const bool in_time = endpoint->stage == Stage::kBound || endpoint->stage == Stage::kAddrResolved ||
                       endpoint->stage == Stage::kResolving || endpoint->stage == Stage::kUnknown;
  Judge::begin("rdma_join_multicast");
  const int result = random_.one_in(2) ? rdma_join_multicast(endpoint->id, as_sockaddr(group), this)
                                       : rdma_join_multicast_ex(endpoint->id, &attr, this);
  // When the calls of the id wait, the group is joined even if its event has not come.
  const bool waits = result != 0 && errno == EAGAIN && !endpoint->has_channel;
  if (sane("rdma_join_multicast", result) && !in_time) judge_.problem("rdma_join_multicast", "not now", 0);
  if (result == 0 || waits) endpoint->groups.push_back(group);
}

void Caller::leave() {
  Endpoint* endpoint = any();
  for (const auto& one : endpoints_) {
    if (!one->groups.empty() && random_.one_in(2)) endpoint = one.get();
  }
  if (endpoint == nullptr) return;
  sockaddr_in group = address_of(0xefc00000 + static_cast<uint32_t>(random_.below(4)), 0);
  if (!endpoint->groups.empty() && random_.one_in(2)) group = endpoint->groups.front();
  const auto found = std::find_if(endpoint->groups.begin(), endpoint->groups.end(),
                                  [&](const sockaddr_in& one) { return one.sin_addr.s_addr == group.sin_addr.s_addr; });
  acknowledge_all(endpoint->id);
  // An id whose calls wait keeps the last event until the next call.
  if (!endpoint->has_channel && endpoint->id->event != nullptr) return;
  Judge::begin("rdma_leave_multicast");
  const int result = rdma_leave_multicast(endpoint->id, as_sockaddr(group));
  predicted("rdma_leave_multicast", result, found != endpoint->groups.end());
  if (found != endpoint->groups.end()) endpoint->groups.erase(found);
}

void Caller::set_option() {
  Endpoint* const endpoint = any();
  if (endpoint == nullptr) return;
  int value = random_.one_in(2) ? 1 : static_cast<int>(random_.below(64));
  Judge::begin("rdma_set_option");
  const auto name = static_cast<int>(random_.below(6));
  if (name == RDMA_OPTION_ID_REUSEADDR) return;
  sane("rdma_set_option", rdma_set_option(endpoint->id, random_.one_in(5) ? 1 : 0, name, &value, random_.below(6)));
}

void Caller::attributes() {
  Endpoint* const endpoint = any();
  if (endpoint == nullptr) return;
  ibv_qp_attr attr{};
  attr.qp_state = static_cast<ibv_qp_state>(random_.below(8));
  int mask = 0;
  Judge::begin("rdma_init_qp_attr");
  if (sane("rdma_init_qp_attr", rdma_init_qp_attr(endpoint->id, &attr, &mask)) && mask == 0) {
    judge_.problem("rdma_init_qp_attr", "nothing is to be set", 0);
  }
}

void Caller::ask() {
  Endpoint* const endpoint = any();
  if (endpoint == nullptr) return;
  int count = 0;
  Judge::begin("rdma_get_devices");
  ibv_context** const devices = rdma_get_devices(random_.one_in(2) ? &count : nullptr);
  judge_.count("rdma_get_devices", devices != nullptr);
  if (devices != nullptr) rdma_free_devices(devices);
  Judge::begin("rdma_event_str");
  if (rdma_event_str(static_cast<rdma_cm_event_type>(random_.below(16))) == nullptr) {
    judge_.problem("rdma_event_str", "no text", 0);
  }
  Judge::begin("rdma_get_src_port");
  const bool bound = rdma_get_src_port(endpoint->id) != 0;
  if (bound && endpoint->stage == Stage::kIdle) judge_.problem("rdma_get_src_port", "of no port", 0);
  if (!bound && endpoint->stage == Stage::kListen) judge_.problem("rdma_get_src_port", "none", 0);
}

void Caller::get_request() {
  Endpoint* const endpoint = any();
  if (endpoint == nullptr || (!endpoint->has_channel && endpoints_.size() >= kEndpointsMax)) return;
  rdma_cm_id* id = nullptr;
  Judge::begin("rdma_get_request");
  const int result = rdma_get_request(endpoint->id, &id);
  sane("(rdma_get_request)", result, endpoint->id);
  if (result != 0) return;
  if (endpoint->has_channel) judge_.problem("rdma_get_request", "of an id that does not wait", 0);
  // Its event belongs to the listener, and must be acknowledged before that is destroyed.
  taken_.push_back({std::exchange(id->event, nullptr), endpoint->id});
  add(id, false, Stage::kUnknown);
}

void Caller::forward() {
  switch (const uint64_t pick = random_.below(5)) {
    case 0:
      return resolve_addr();
    case 1:
      return resolve_route();
    case 2:
      return connect();
    default:
      return pick == 3 ? accept() : take_event();
  }
}

}  // namespace cm_fuzz
