// The commands, and the program: cm_command_fuzz [SEED [STEPS]].
#include "cm_command_fuzz.h"

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include <cstddef>

namespace cm_fuzz {

namespace {

constexpr uint32_t kLoopback = 0x7f000001;
constexpr uint32_t kStranger = 0xc6336401;  // 198.51.100.1

sockaddr_in ipv4(uint32_t address, uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(address);
  to.sin_port = htons(port);
  return to;
}

}  // namespace

sockaddr_in Fuzzer::some_address() {
  constexpr uint32_t kAddresses[] = {INADDR_ANY, INADDR_ANY, kLoopback, kLoopback, kStranger};
  return ipv4(kAddresses[random_.below(std::size(kAddresses))], random_.one_in(3) ? some_port(false) : uint16_t{0});
}

void Fuzzer::create() {
  if (ids_.size() >= kIdsMax) return destroy();
  constexpr uint16_t kSpaces[] = {RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_TCP + 1};
  const uint16_t space = kSpaces[random_.below(std::size(kSpaces))];
  File& file = *files_[random_.below(files_.size())];
  const uint64_t uid = next_uid_++;
  const rdma_ucm_create_id body{uid, 0, space, IBV_QPT_RC, {}};
  const Sent sent = send("create id", file, RDMA_USER_CM_CMD_CREATE_ID, body, sizeof(rdma_ucm_create_id_resp));
  if (!outcome("create id", sent, {space == RDMA_PS_TCP + 1 ? EINVAL : 0}) || sent.bad_response) return;
  auto id = std::make_unique<Id>();
  id->number = reply<rdma_ucm_create_id_resp>().id;
  id->uid = uid;
  id->file = &file;
  id->datagram = space == RDMA_PS_UDP;
  for (const auto& other : ids_) {
    if (other->number == id->number) judge_.problem("create id", "a number that is in use", id->number);
  }
  ids_.push_back(std::move(id));
}

void Fuzzer::destroy() {
  Id* const id = any();
  const bool is_rare = id != nullptr && (id->phase == Phase::kConnect || id->phase == Phase::kListen);
  if (id != nullptr && (!is_rare || random_.one_in(3))) destroy(*id);
}

void Fuzzer::destroy(Id& id) {
  const Sent sent = send("destroy id", *id.file, RDMA_USER_CM_CMD_DESTROY_ID, rdma_ucm_destroy_id{0, id.number, 0},
                         sizeof(rdma_ucm_destroy_id_resp));
  if (!outcome("destroy id", sent, {0})) return;
  const uint32_t reported = reply<rdma_ucm_destroy_id_resp>().events_reported;
  if (!sent.bad_response && reported != id.taken) judge_.problem("destroy id", "another number of events", reported);
  forget(id);
}

void Fuzzer::bind() {
  if (Id* const id = random_.one_in(4) ? any() : any_in(Phase::kIdle)) bind(*id, some_address());
}

void Fuzzer::bind(Id& id, const sockaddr_in& address) {
  rdma_ucm_bind body{};
  body.id = id.number;
  body.addr_size = sizeof address;
  std::memcpy(&body.addr, &address, sizeof address);
  if (random_.one_in(20)) body.addr_size = static_cast<uint16_t>(random_.bits());
  if (random_.one_in(20)) body.reserved = 1;
  const bool wrong = body.addr_size != sizeof address || body.reserved != 0;
  const Sent sent = send("bind", *id.file, RDMA_USER_CM_CMD_BIND, body);
  if (wrong || id.phase != Phase::kIdle) return void(outcome("bind", sent, {EINVAL}));
  const uint32_t host = ntohl(address.sin_addr.s_addr);
  const bool own = host != kStranger;
  const bool any_port = address.sin_port == 0;
  const int taken = own && !any_port ? EADDRINUSE : 0;
  const int clashes = own && any_port ? 0 : EADDRNOTAVAIL;  // two ids with one port, one of which has any address
  if (!outcome("bind", sent, {own ? 0 : EADDRNOTAVAIL, own ? taken : EADDRNOTAVAIL, clashes})) return;
  id.phase = Phase::kBound;
  id.has_device = host != INADDR_ANY;
}

void Fuzzer::resolve() {
  Id* const id = random_.one_in(3) ? any() : any_in(random_.one_in(2) ? Phase::kIdle : Phase::kBound);
  if (id == nullptr) return;
  resolve(*id, ipv4(random_.one_in(8) ? kStranger : kLoopback, some_port(id->datagram)),
          1 + static_cast<uint32_t>(random_.below(3)) * 1000);
}

void Fuzzer::resolve(Id& id, const sockaddr_in& to, uint32_t timeout_ms) {
  rdma_ucm_resolve_addr body{};
  body.id = id.number;
  body.timeout_ms = timeout_ms;
  body.dst_size = sizeof to;
  std::memcpy(&body.dst_addr, &to, sizeof to);
  if (random_.one_in(20)) body.dst_size = static_cast<uint16_t>(random_.bits());
  if (random_.one_in(20)) body.reserved = 1;
  if (random_.one_in(20)) body.src_size = 3;
  const bool wrong = body.dst_size != sizeof to || body.reserved != 0 || body.src_size != 0;
  const Sent sent = send("resolve address", *id.file, RDMA_USER_CM_CMD_RESOLVE_ADDR, body);
  if (sent.judged) return;
  const bool may = id.phase == Phase::kIdle || id.phase == Phase::kBound;
  // An address without a host may have failed already.
  const bool may_again = id.phase == Phase::kResolving && id.stranger;
  if (wrong || !(may || may_again)) return void(outcome("resolve address", sent, {EINVAL}));
  const bool stranger = to.sin_addr.s_addr == htonl(kStranger);
  if (id.phase == Phase::kIdle) id.phase = Phase::kBound;  // even without a route
  if (!outcome("resolve address", sent, {0, stranger ? ENETUNREACH : 0, may_again ? EINVAL : 0})) return;
  id.stranger |= stranger;
  id.phase = Phase::kResolving;
  id.has_device = true;
  id.owed_addresses++;
}

void Fuzzer::resolve_route() {
  if (Id* const id = random_.one_in(3) ? any() : any_in(Phase::kAddrResolved)) resolve_route(*id);
}

void Fuzzer::resolve_route(Id& id) {
  const Sent sent = send("resolve route", *id.file, RDMA_USER_CM_CMD_RESOLVE_ROUTE,
                         rdma_ucm_resolve_route{id.number, 1 + static_cast<uint32_t>(random_.below(3000))});
  const bool may = id.phase == Phase::kAddrResolved || id.phase == Phase::kResolving;
  if (!outcome("resolve route", sent, {may ? 0 : EINVAL, id.phase == Phase::kAddrResolved ? 0 : EINVAL})) {
    return;
  }
  id.phase = Phase::kRouteResolved;
  id.owed_routes++;
}

void Fuzzer::listen() {
  Id* const id = random_.one_in(4) ? any() : any_in(Phase::kBound);
  if (id == nullptr) return;
  const auto backlog = static_cast<uint32_t>(random_.one_in(4) ? random_.bits() : random_.below(5));
  const Sent sent = send("listen", *id->file, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id->number, backlog});
  const bool may_again = id->phase == Phase::kResolving && id->stranger;  // an address without a host may have failed
  const bool may = id->phase == Phase::kIdle || id->phase == Phase::kBound || may_again;
  // The port may belong to another id that shares it.
  const int refused = may_again || !may ? EINVAL : 0;
  if (!outcome("listen", sent, {may ? 0 : EINVAL, may ? EADDRINUSE : EINVAL, refused})) return;
  id->phase = Phase::kListen;
  const rdma_ucm_query body{reinterpret_cast<uint64_t>(reply_), id->number, RDMA_USER_CM_QUERY_ADDR};
  if (write_command(*id->file, RDMA_USER_CM_CMD_QUERY, &body, sizeof body, sizeof reply_) != 0) return;
  sockaddr_in local;
  std::memcpy(&local, &reply<rdma_ucm_query_addr_resp>().src_addr, sizeof local);
  id->port = ntohs(local.sin_port);
}

void Fuzzer::connect() {
  Id* const id = random_.one_in(4) ? any() : any_in(Phase::kRouteResolved);
  if (id != nullptr) connect(*id, static_cast<uint8_t>(random_.one_in(5) ? random_.bits() : 8));
}

void Fuzzer::connect(Id& id, uint8_t data_bytes) {
  rdma_ucm_connect body{};
  body.id = id.number;
  body.conn_param.qp_num = static_cast<uint32_t>(id.uid & 0xffffff);
  body.conn_param.valid = random_.one_in(30) ? 0 : 1;
  body.conn_param.private_data_len = data_bytes;
  body.conn_param.responder_resources = static_cast<uint8_t>(random_.below(20));
  body.conn_param.retry_count = static_cast<uint8_t>(random_.bits());
  std::memcpy(body.conn_param.private_data, &id.uid, sizeof id.uid);
  const Sent sent = send("connect", *id.file, RDMA_USER_CM_CMD_CONNECT, body);
  const uint8_t room = id.datagram ? 180 : 56;  // 92 and 216, less the addresses
  const bool may = id.phase == Phase::kRouteResolved && body.conn_param.valid != 0 && data_bytes <= room;
  if (!outcome("connect", sent, {may ? 0 : EINVAL})) return;
  id.phase = Phase::kConnect;
  id.has_connection = true;
}

void Fuzzer::accept() {
  Id* const id = random_.one_in(4) ? any() : any_in(Phase::kConnect);
  if (id != nullptr) accept(*id, static_cast<uint8_t>(random_.one_in(5) ? random_.bits() : 8), !random_.one_in(4));
}

void Fuzzer::accept(Id& id, uint8_t data_bytes, bool has_parameters) {
  const uint64_t uid = id.uid != 0 ? id.uid : next_uid_++;
  rdma_ucm_accept body{};
  body.uid = uid;
  body.id = id.number;
  body.conn_param.valid = has_parameters ? 1 : 0;
  body.conn_param.qp_num = static_cast<uint32_t>(uid & 0xffffff);
  body.conn_param.private_data_len = data_bytes;
  const Sent sent = send("accept", *id.file, RDMA_USER_CM_CMD_ACCEPT, body);
  if (sent.judged) return;
  const bool fits = data_bytes <= (id.datagram ? 136 : 196) || !has_parameters;
  const bool is_request = id.phase == Phase::kConnect && (id.uid == 0 || id.peer_uid != 0);
  const Id* const peer = id.peer_uid != 0 ? find(id.peer_uid) : nullptr;
  const bool peer_waits = peer != nullptr && !peer->disturbed;
  bool must_fail = id.phase != Phase::kConnect;
  bool must_succeed = false;
  if (is_request) {
    const bool right = fits && (has_parameters || id.datagram);
    must_fail = !id.fresh || !right;
    must_succeed = !must_fail && peer_waits;
  } else if (has_parameters && !id.datagram) {
    must_fail = true;  // it is the active side
  }
  const bool done = outcome("accept", sent, {must_fail ? EINVAL : 0, must_succeed ? 0 : EINVAL});
  // "In the case of error, a reject message is sent to the remote side."
  if (id.phase == Phase::kConnect) id.fresh = false;
  if (done && is_request && has_parameters) id.uid = uid;
  if (!done) disturb(id);
}

void Fuzzer::reject() {
  Id* const id = random_.one_in(3) ? any() : any_in(Phase::kConnect);
  if (id == nullptr || (id->phase == Phase::kConnect && !random_.one_in(2))) return;
  rdma_ucm_reject body{};
  body.id = id->number;
  body.private_data_len = static_cast<uint8_t>(random_.one_in(3) ? random_.bits() : 10);
  body.reason = static_cast<uint8_t>(random_.one_in(8) ? random_.bits() : random_.one_in(2) ? 28 : 0);
  const bool reason = body.reason == 0 || body.reason == 28 || body.reason == 35;
  const bool fits = body.private_data_len <= (id->datagram ? 136 : 148);
  const Id* const peer = id->peer_uid != 0 ? find(id->peer_uid) : nullptr;
  const bool must = id->fresh && peer != nullptr && !peer->disturbed;
  const Sent sent = send("reject", *id->file, RDMA_USER_CM_CMD_REJECT, body);
  const bool may = reason && fits && id->has_connection;
  const bool done = outcome("reject", sent, {may ? 0 : EINVAL, may && must ? 0 : EINVAL});
  if (!done) return;
  id->fresh = false;
  disturb(*id);
}

void Fuzzer::disconnect() {
  Id* const id = random_.one_in(3) ? any() : any_in(Phase::kConnect);
  if (id == nullptr || (id->phase == Phase::kConnect && !random_.one_in(3))) return;
  const Sent sent = send("disconnect", *id->file, RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id->number});
  const int without = id->phase == Phase::kListen ? 0 : EINVAL;  // the kernel allows it on listeners
  if (outcome("disconnect", sent, {id->has_connection ? 0 : EINVAL, id->has_connection ? 0 : without})) disturb(*id);
}

}  // namespace cm_fuzz
