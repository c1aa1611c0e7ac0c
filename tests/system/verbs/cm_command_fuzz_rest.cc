// The other commands, invalid ones, and the program.
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cstddef>

#include "cm_command_fuzz.h"

namespace cm_fuzz {

void Fuzzer::init_qp_attr() {
  Id* const id = any();
  if (id == nullptr) return;
  const auto state = static_cast<uint32_t>(random_.below(9));
  const Sent sent = send("init qp attr", *id->file, RDMA_USER_CM_CMD_INIT_QP_ATTR,
                         rdma_ucm_init_qp_attr{0, id->number, state}, sizeof(ib_uverbs_qp_attr));
  const bool may = id->has_device && state <= IBV_QPS_ERR;
  const bool must = may && state == IBV_QPS_INIT && (id->datagram || !id->has_connection);
  outcome("init qp attr", sent, {may ? 0 : EINVAL, must ? 0 : EINVAL});
}

void Fuzzer::take_event() { take_event(*files_[random_.below(files_.size())]); }

void Fuzzer::set_option() {
  Id* const id = any();
  if (id == nullptr) return;
  uint8_t value[8] = {static_cast<uint8_t>(random_.one_in(4) ? random_.bits() : random_.below(32))};
  const auto level = static_cast<uint32_t>(random_.one_in(10) ? random_.below(4) : 0);
  const auto name = static_cast<uint32_t>(random_.below(5));
  const uint32_t right = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT ? 1 : 4;
  const auto bytes = static_cast<uint32_t>(random_.one_in(10) ? random_.below(9) : right);
  const bool bad = random_.one_in(20);
  const uint64_t where = bad ? 4096 - 8 : reinterpret_cast<uint64_t>(value);
  // With shared ports, the list of what binding may return would be too long.
  if (level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_REUSEADDR && bytes == 4) return;
  const Sent sent = send("set option", *id->file, RDMA_USER_CM_CMD_SET_OPTION,
                         rdma_ucm_set_option{where, id->number, level, name, bytes});
  if (level > RDMA_OPTION_IB || (level == RDMA_OPTION_IB && name != RDMA_OPTION_IB_PATH)) {
    outcome("set option", sent, {ENOSYS});
  } else if (level == RDMA_OPTION_IB) {
    outcome("set option", sent, {EINVAL});  // no whole number of paths
  } else if (name > RDMA_OPTION_ID_ACK_TIMEOUT) {
    outcome("set option", sent, {ENOSYS});
  } else if (bytes != right) {
    outcome("set option", sent, {EINVAL});
  } else if (bad) {
    outcome("set option", sent, {EFAULT});
  } else if (name == RDMA_OPTION_ID_TOS) {
    outcome("set option", sent, {0});
  } else if (name == RDMA_OPTION_ID_AFONLY) {
    const bool may = id->phase == Phase::kIdle || id->phase == Phase::kBound;
    const bool may_again = id->phase == Phase::kResolving && id->stranger;  // it may have failed already
    outcome("set option", sent, {may ? 0 : EINVAL, may || may_again ? 0 : EINVAL});
  } else {
    outcome("set option", sent, {!id->datagram && value[0] <= 31 ? 0 : EINVAL});
  }
}

void Fuzzer::notify() {
  Id* const id = random_.one_in(4) ? any() : any_in(Phase::kConnect);
  if (id == nullptr) return;
  const auto event = static_cast<uint32_t>(random_.one_in(3) ? random_.below(20) : 4);
  const Sent sent = send("notify", *id->file, RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{id->number, event});
  const bool may = id->has_connection && event == 4;
  outcome("notify", sent, {may ? 0 : EINVAL, may ? EISCONN : EINVAL, EINVAL});
}

void Fuzzer::join() {
  Id* const id = any();
  if (id == nullptr || (!id->datagram && !random_.one_in(4))) return;
  rdma_ucm_join_mcast body{};
  sockaddr_in group{};
  group.sin_family = AF_INET;
  group.sin_addr.s_addr =
      htonl((random_.one_in(10) ? 0x7f000000 : 0xefc00000) + static_cast<uint32_t>(random_.below(9)));
  const bool is_group = ntohl(group.sin_addr.s_addr) >= 0xe0000000;
  body.uid = next_uid_++;
  body.id = id->number;
  body.addr_size = sizeof group;
  body.join_flags = static_cast<uint16_t>(random_.one_in(10) ? random_.bits() : random_.below(2));
  std::memcpy(&body.addr, &group, sizeof group);
  const Sent sent = send("join", *id->file, RDMA_USER_CM_CMD_JOIN_MCAST, body, sizeof(rdma_ucm_create_id_resp));
  const bool in_time = id->phase == Phase::kBound || id->phase == Phase::kAddrResolved;
  const bool right = id->datagram && id->has_device && is_group && body.join_flags <= 1;
  const bool may = right && (in_time || id->phase == Phase::kResolving);
  if (!outcome("join", sent, {may ? 0 : EINVAL, right && in_time ? 0 : EINVAL}) || sent.bad_response) return;
  auto joined = std::make_unique<Group>();
  joined->number = reply<rdma_ucm_create_id_resp>().id;
  joined->uid = body.uid;
  joined->id = id;
  groups_.push_back(std::move(joined));
}

void Fuzzer::leave() {
  if (groups_.empty()) return;
  const size_t index = random_.below(groups_.size());
  const Group& group = *groups_[index];
  const Sent sent = send("leave", *group.id->file, RDMA_USER_CM_CMD_LEAVE_MCAST,
                         rdma_ucm_destroy_id{0, group.number, 0}, sizeof(rdma_ucm_destroy_id_resp));
  if (!outcome("leave", sent, {0})) return;
  const uint32_t reported = reply<rdma_ucm_destroy_id_resp>().events_reported;
  if (!sent.bad_response && reported != group.taken) judge_.problem("leave", "another number of events", reported);
  groups_.erase(groups_.begin() + static_cast<ptrdiff_t>(index));
}

void Fuzzer::migrate() {
  Id* const id = any();
  if (id == nullptr) return;
  File& to = *files_[random_.below(files_.size())];
  const int wrong = random_.one_in(10) ? STDOUT_FILENO : random_.one_in(10) ? 60000 : -1;
  const auto from = static_cast<uint32_t>(wrong >= 0 ? wrong : id->file->fd);
  const Sent sent = send("migrate", to, RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{0, id->number, from},
                         sizeof(rdma_ucm_migrate_resp));
  const int expected = wrong < 0 ? 0 : wrong == STDOUT_FILENO ? EINVAL : ENOENT;
  if (!outcome("migrate", sent, {expected})) return;
  const uint32_t reported = reply<rdma_ucm_migrate_resp>().events_reported;
  if (!sent.bad_response && reported != id->taken) judge_.problem("migrate", "another number of events", reported);
  id->file = &to;
}

void Fuzzer::query() {
  Id* const id = any();
  if (id == nullptr) return;
  const auto option = static_cast<uint32_t>(random_.below(4));
  const size_t room = option == RDMA_USER_CM_QUERY_PATH ? 8 : offsetof(rdma_ucm_query_addr_resp, ibdev_index);
  if (random_.one_in(3)) {
    const Sent sent = send("query route", *id->file, RDMA_USER_CM_CMD_QUERY_ROUTE, rdma_ucm_query{0, id->number, 0},
                           offsetof(rdma_ucm_query_route_resp, ibdev_index));
    outcome("query route", sent, {0});
    return;
  }
  // The size of an answer to an unknown question is not defined.
  const Sent sent = send("query", *id->file, RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, id->number, option},
                         option > RDMA_USER_CM_QUERY_GID ? 0 : room);
  if (!outcome("query", sent, {option > RDMA_USER_CM_QUERY_GID ? ENOSPC : 0}) || sent.bad_response) return;
  if (option != RDMA_USER_CM_QUERY_ADDR) return;
  const auto& answer = reply<rdma_ucm_query_addr_resp>();
  if ((answer.src_size != 0) != (id->phase != Phase::kIdle)) judge_.problem("query", "bound or not", answer.src_size);
  if (!id->stranger && (answer.node_guid != 0) != id->has_device)
    judge_.problem("query", "on the device or not", answer.port_num);
}

void Fuzzer::write_event() {
  Id* const id = any();
  if (id == nullptr || id->uid == 0) return;  // events of a request that is not accepted have no uid
  const bool wrong = random_.one_in(8);
  const auto type = static_cast<uint32_t>(wrong ? random_.below(kEventUser) : kEventUser + random_.below(2));
  const Sent sent =
      send("write event", *id->file, kWriteCmEvent, WriteCmEvent{id->number, 0, type, id->number, id->written + 1});
  if (outcome("write event", sent, {wrong ? EINVAL : 0}) && !wrong) id->written++;
}

void Fuzzer::resolve_service() {
  Id* const id = random_.one_in(3) ? any() : any_in(Phase::kBound);
  if (id == nullptr) return;
  const Sent sent = send("resolve service", *id->file, kResolveIbService, ResolveIbService{id->number, 0, {}});
  const bool bound = id->phase == Phase::kBound && id->has_device;
  const bool again = id->phase == Phase::kResolving && id->stranger;  // an address without a host may have failed
  outcome("(resolve service)", sent, {bound ? EOPNOTSUPP : EINVAL, again ? EOPNOTSUPP : bound ? EOPNOTSUPP : EINVAL});
}

/// Bytes that are not a whole command. They do not meet ids that exist, whose numbers cannot be guessed.
void Fuzzer::garbage() {
  uint8_t body[600];
  for (uint8_t& byte : body) byte = static_cast<uint8_t>(random_.bits());
  // As an id: one that does not exist (the first one is 0); as the address of a response: nothing is there.
  std::memset(body, 0xee, 16);
  std::memset(body + 4, 0, 4);
  const File& file = *files_[random_.below(files_.size())];
  Judge::begin("(garbage)");
  const auto command = static_cast<uint32_t>(random_.one_in(4) ? random_.bits() : random_.below(30));
  if (command == RDMA_USER_CM_CMD_GET_EVENT) return;
  const int error = write_command(file, command, body, random_.below(sizeof body), random_.below(65536));
  judge_.among("(garbage)", error, {0, EINVAL, ENOENT, ENOSYS, ENOSPC, EFAULT});
  if (error == 0) judge_.problem("(garbage)", "was carried out", static_cast<int>(command));
}

/// Takes a random id one step nearer to a connection.
void Fuzzer::forward() {
  Id* const id = any();
  if (id == nullptr) return;
  switch (id->phase) {
    case Phase::kIdle:
    case Phase::kBound: {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      to.sin_port = htons(some_port(id->datagram));
      return resolve(*id, to, 2000);
    }
    case Phase::kAddrResolved:
      return resolve_route(*id);
    case Phase::kRouteResolved:
      return connect(*id, 8);
    case Phase::kConnect:
      return accept(*id, 8, id->fresh || id->peer_uid != 0);
    default:
      return take_event();
  }
}

void Fuzzer::step() {
  using Call = void (Fuzzer::*)();
  constexpr Call kCalls[] = {
      &Fuzzer::create,     &Fuzzer::create,        &Fuzzer::create,  &Fuzzer::destroy,     &Fuzzer::bind,
      &Fuzzer::resolve,    &Fuzzer::resolve_route, &Fuzzer::listen,  &Fuzzer::connect,     &Fuzzer::accept,
      &Fuzzer::accept,     &Fuzzer::reject,        &Fuzzer::reject,  &Fuzzer::disconnect,  &Fuzzer::init_qp_attr,
      &Fuzzer::set_option, &Fuzzer::notify,        &Fuzzer::join,    &Fuzzer::join,        &Fuzzer::leave,
      &Fuzzer::migrate,    &Fuzzer::query,         &Fuzzer::garbage, &Fuzzer::write_event, &Fuzzer::resolve_service};
  if (random_.one_in(2000)) return reopen();
  if (random_.one_in(3)) return take_event();
  if (random_.one_in(3)) return forward();
  (this->*kCalls[random_.below(std::size(kCalls))])();
}

}  // namespace cm_fuzz

int main(int argc, char** argv) { return cm_fuzz::main_of<cm_fuzz::Fuzzer>(argc, argv); }
