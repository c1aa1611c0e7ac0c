// Random commands of rdma_user_cm.h, and a model of ids that says what they have to answer: written after the rules of
// Linux' ucma and rdma_cm, with what librdmacm would never write. At most one thing of a command is wrong in its form;
// then its errno is known whatever the state is.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cm_fuzz.h"

namespace cm_fuzz {

/// rdma_cm_event_type; <rdma/rdma_cma.h> cannot be included along with <rdma/rdma_user_cm.h>.
enum EventType : uint32_t {
  kEventAddrResolved = 0,
  kEventAddrError = 1,
  kEventRouteResolved = 2,
  kEventConnectRequest = 4,
  kEventMulticastJoin = 12,
  kEventUser = 18,
  kEventInternal = 19
};

// Of rdma_user_cm.h of Linux 6.17.
inline constexpr uint32_t kResolveIbService = 23;
inline constexpr uint32_t kWriteCmEvent = 24;
struct ResolveIbService {
  uint32_t id, reserved;
  uint64_t service[10];
};
struct WriteCmEvent {
  uint32_t id, reserved, event, status;
  uint64_t argument;
};

enum class Phase : uint8_t { kIdle, kBound, kResolving, kAddrResolved, kRouteResolved, kConnect, kListen };

struct File {
  int fd = -1;
};

struct Id {
  uint32_t number = 0;
  uint64_t uid = 0;
  File* file = nullptr;
  uint16_t port = 0;  // of a listener
  bool datagram = false;
  Phase phase = Phase::kIdle;
  bool has_device = false;
  bool has_connection = false;
  uint32_t taken = 0;           // events
  uint32_t owed_addresses = 0;  // answers that have not been taken yet
  uint32_t owed_routes = 0;
  uint64_t written = 0;    // events that the program wrote, numbered
  uint64_t read = 0;       // of those, events that it took
  uint64_t peer_uid = 0;   // of a request: its sender
  bool fresh = false;      // of a request: neither accepted nor rejected
  bool disturbed = false;  // the program ended, or tried to end, the connection
  bool stranger = false;   // was to be resolved to an address that no host has
};

struct Group {
  uint32_t number = 0;
  uint64_t uid = 0;
  Id* id = nullptr;
  uint32_t taken = 0;
};

/// The outcome of a command.
struct Sent {
  int error;
  bool judged;        // it was malformed, and its error has been checked
  bool bad_response;  // it is valid, but its reply cannot be written
};

class Fuzzer {
 public:
  Fuzzer(Random& random, Judge& judge);
  void step();
  /// Takes what is left, and destroys everything, some ids by closing their channel.
  void finish();

 private:
  static constexpr size_t kIdsMax = 40;
  static constexpr size_t kFiles = 3;

  // Choice of objects.
  Id* any();
  Id* any_in(Phase phase);
  Id* find(uint64_t uid);
  uint16_t some_port(bool datagram);
  sockaddr_in some_address();

  // Sending a command, cm_command_fuzz_world.cc.
  int write_command(const File& file, uint32_t command, const void* body, size_t in, size_t out);
  template <typename Body>
  Sent send(const char* call, const File& file, uint32_t command, Body body, size_t reply_bytes = 0);
  /// Whether it was carried out, even if its reply was lost.
  bool outcome(const char* call, const Sent& sent, std::initializer_list<int> allowed);
  template <typename Reply>
  const Reply& reply() const {
    return *reinterpret_cast<const Reply*>(reply_);
  }

  void create();
  void destroy();
  void destroy(Id& id);
  void bind();
  void resolve();
  void resolve_route();
  void listen();
  void connect();
  void accept();
  void reject();
  void disconnect();
  void init_qp_attr();
  void take_event();
  bool take_event(File& file);
  void on_event(File& file, const rdma_ucm_event_resp& event);
  void on_request(Id& listener, const rdma_ucm_event_resp& event);
  void on_event_of(Id& id, const rdma_ucm_event_resp& event);
  void set_option();
  void notify();
  void join();
  void leave();
  void migrate();
  void query();
  void write_event();
  void resolve_service();
  void garbage();
  void reopen();
  /// Takes a random id one step nearer to a connection.
  void forward();

  void bind(Id& id, const sockaddr_in& address);
  void resolve(Id& id, const sockaddr_in& to, uint32_t timeout_ms);
  void resolve_route(Id& id);
  void connect(Id& id, uint8_t data_bytes);
  void accept(Id& id, uint8_t data_bytes, bool has_parameters);
  void forget(Id& id);
  void disturb(Id& id);

  Random& random_;
  Judge& judge_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::unique_ptr<Id>> ids_;
  std::vector<std::unique_ptr<Group>> groups_;
  uint64_t next_uid_ = 1;
  alignas(8) uint8_t reply_[1024];
};

/// Sends the command, with a random error in its form now and then.
template <typename Body>
Sent Fuzzer::send(const char* call, const File& file, uint32_t command, Body body, size_t reply_bytes) {
  constexpr uint32_t kNobody = 0x7fff0000;  // no id gets this number
  constexpr bool has_id = requires { body.id; };
  constexpr bool has_response = requires { body.response; };
  if constexpr (has_response) body.response = reinterpret_cast<uint64_t>(reply_);
  Judge::begin(call);
  const auto judged = [&](int error, std::initializer_list<int> allowed) {
    judge_.among(("(" + std::string(call) + " of a wrong form)").c_str(), error, allowed);
    return Sent{error, true, false};
  };
  const uint64_t what = random_.below(40);
  if (what == 0) return judged(write_command(file, command, &body, random_.below(4), reply_bytes), {EINVAL});
  if (what == 1 && reply_bytes != 0) {
    return judged(write_command(file, command, &body, sizeof body, random_.below(reply_bytes)), {ENOSPC});
  }
  if constexpr (has_id) {
    const uint32_t id = std::exchange(body.id, what == 2 ? kNobody + body.id : body.id);
    // Some attributes are checked before the id's existence, others after it.
    if (what == 2) return judged(write_command(file, command, &body, sizeof body, reply_bytes), {ENOENT, EINVAL});
    body.id = id;
  }
  bool bad_response = false;
  if constexpr (has_response) {
    bad_response = what == 3 && reply_bytes != 0;
    if (bad_response) body.response = random_.one_in(2) ? 0 : 4096 - 8;
  }
  return {write_command(file, command, &body, sizeof body, reply_bytes), false, bad_response};
}

}  // namespace cm_fuzz
