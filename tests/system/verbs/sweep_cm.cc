#include "sweep_cm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace verbs_test {

namespace {

/// Moves an id from one channel to another, and destroys all three.
int migrate() {
  rdma_event_channel* const from = rdma_create_event_channel();
  rdma_event_channel* const to = from != nullptr ? rdma_create_event_channel() : nullptr;
  rdma_cm_id* id = nullptr;
  const bool moved =
      to != nullptr && rdma_create_id(from, &id, nullptr, RDMA_PS_TCP) == 0 && rdma_migrate_id(id, to) == 0;
  const int error = moved ? 0 : errno;
  if (id != nullptr) rdma_destroy_id(id);
  for (rdma_event_channel* const channel : {from, to}) {
    if (channel != nullptr) rdma_destroy_event_channel(channel);
  }
  return error;
}

/// Closing a channel's descriptor destroys all that is on it, without memory, too, so that the port is free. (What
/// librdmacm itself keeps of it is lost.)
void close_without_memory(Sweep& sweep, FailingMemory& memory) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  rdma_cm_id *id = nullptr, *next = nullptr;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  bool good = rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0 && rdma_bind_addr(id, where) == 0 &&
              rdma_listen(id, 1) == 0;
  if (good) address.sin_port = rdma_get_src_port(id);
  memory.begin(1, Trouble::kFromThenOn);
  good = good && close(channel->fd) == 0;
  memory.end();
  rdma_event_channel* const other = rdma_create_event_channel();
  good = good && rdma_create_id(other, &next, nullptr, RDMA_PS_TCP) == 0 && rdma_bind_addr(next, where) == 0;
  if (!good) sweep.complain("a channel with a listener", 1, Trouble::kFromThenOn, "is not closed");
  if (next != nullptr) rdma_destroy_id(next);
  rdma_destroy_event_channel(other);
}

/// A connection to be requested while memory fails.
struct Asked {
  rdma_event_channel* channel = nullptr;  // the listener's own
  rdma_cm_id* listener = nullptr;
  rdma_cm_id* client = nullptr;
};

bool readable(const rdma_event_channel* channel, int patience_ms) {
  pollfd wait{channel->fd, POLLIN, 0};
  return poll(&wait, 1, patience_ms) == 1;
}

rdma_cm_event_type next_event(rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) return RDMA_CM_EVENT_DEVICE_REMOVAL;
  const rdma_cm_event_type type = event->event;
  rdma_ack_cm_event(event);
  return type;
}

Asked prepare(Sweep& sweep, rdma_event_channel* client) {
  Asked asked{rdma_create_event_channel(), nullptr, nullptr};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  bool good = rdma_create_id(asked.channel, &asked.listener, nullptr, RDMA_PS_TCP) == 0 &&
              rdma_bind_addr(asked.listener, where) == 0 && rdma_listen(asked.listener, 1) == 0;
  if (good) address.sin_port = rdma_get_src_port(asked.listener);
  good = good && rdma_create_id(client, &asked.client, nullptr, RDMA_PS_TCP) == 0 &&
         rdma_resolve_addr(asked.client, nullptr, where, 2000) == 0 &&
         next_event(client) == RDMA_CM_EVENT_ADDR_RESOLVED && rdma_resolve_route(asked.client, 2000) == 0 &&
         next_event(client) == RDMA_CM_EVENT_ROUTE_RESOLVED;
  if (!good) sweep.complain("a connection", 0, {}, "cannot be prepared");
  return asked;
}

/// The n-th allocation on the way of a connection request fails, in either process. True when there were that many.
bool ask(Sweep& sweep, FailingMemory& memory, const Asked& asked, long n) {
  rdma_conn_param param{};
  param.qp_num = 0x1000 + static_cast<uint32_t>(n);
  memory.begin(n, Trouble::kOnce);
  bool gone = rdma_connect(asked.client, &param) == 0;
  for (int i = 0; i < 1000 && gone && !memory.failed() && !readable(asked.channel, 5); i++) {
  }
  memory.end();
  if (!gone) gone = rdma_connect(asked.client, &param) == 0;  // it failed here
  if (!gone) sweep.complain("rdma_connect", n, Trouble::kOnce, "fails with memory, too");
  return memory.failed();
}

/// Whether the listener gets the request, which is then rejected.
bool hears(const Asked& asked) {
  rdma_cm_event* event = nullptr;
  if (!readable(asked.channel, 30'000) || rdma_get_cm_event(asked.channel, &event) != 0) return false;
  const bool good = event->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->listen_id == asked.listener;
  rdma_cm_id* const id = event->id;
  rdma_reject(id, nullptr, 0);
  rdma_ack_cm_event(event);
  rdma_destroy_id(id);
  return good;
}

/// A listener with room for one request had no memory for it. The request is sent again, and finds that room.
void requests_come_again(Sweep& sweep, FailingMemory& memory) {
  rdma_event_channel* const client = rdma_create_event_channel();
  std::vector<Asked> all;
  for (bool more = true; more && sweep.good();) {
    all.push_back(prepare(sweep, client));
    if (sweep.good()) more = ask(sweep, memory, all.back(), static_cast<long>(all.size()));
  }
  for (size_t i = 0; i < all.size() && sweep.good(); i++) {
    if (!hears(all[i])) sweep.complain("a request", static_cast<long>(i) + 1, Trouble::kOnce, "never comes again");
  }
  if (sweep.good() && all.size() < 12)
    sweep.complain("a request", static_cast<long>(all.size()), {}, "needs hardly any memory");
  for (const Asked& asked : all) {
    if (asked.client != nullptr) rdma_destroy_id(asked.client);
    if (asked.listener != nullptr) rdma_destroy_id(asked.listener);
    rdma_destroy_event_channel(asked.channel);
  }
  rdma_destroy_event_channel(client);
}

/// The id of an established connection at the listener's end; nullptr when it fails. Its queue pairs are `qpn` and the
/// next.
rdma_cm_id* establish(Sweep& sweep, const Asked& asked, rdma_event_channel* client, uint32_t qpn) {
  rdma_conn_param param{};
  param.qp_num = qpn;
  rdma_cm_event* event = nullptr;
  rdma_cm_id* accepted = nullptr;
  if (sweep.good() && rdma_connect(asked.client, &param) == 0 && rdma_get_cm_event(asked.channel, &event) == 0) {
    accepted = event->id;
    rdma_ack_cm_event(event);
  }
  param.qp_num = qpn + 1;
  const bool good = accepted != nullptr && rdma_accept(accepted, &param) == 0 &&
                    next_event(client) == RDMA_CM_EVENT_CONNECT_RESPONSE && rdma_establish(asked.client) == 0 &&
                    next_event(asked.channel) == RDMA_CM_EVENT_ESTABLISHED;
  if (!good) sweep.complain("a connection", 0, {}, "does not stand");
  return good ? accepted : nullptr;
}

/// Destroys both ends of a connection, or closes the channel of one with all that is on it.
void connected_end_without_memory(Sweep& sweep, FailingMemory& memory) {
  for (const bool closes : {false, true}) {
    rdma_event_channel* const client = rdma_create_event_channel();
    const Asked asked = prepare(sweep, client);
    rdma_cm_id* const accepted = establish(sweep, asked, client, closes ? 0x2000 : 0x2002);
    if (accepted == nullptr) return;
    memory.begin(1, Trouble::kFromThenOn);
    bool good;
    if (closes) {
      good = close(asked.channel->fd) == 0;
    } else {
      good = rdma_destroy_id(accepted) == 0 && rdma_destroy_id(asked.client) == 0;
    }
    memory.end();
    if (!good)
      sweep.complain(closes ? "a channel with a connection" : "a connection", 1, Trouble::kFromThenOn, "stays");
    if (closes) {  // librdmacm's memory of the others is lost
      rdma_destroy_id(asked.client);
    } else {
      rdma_destroy_id(asked.listener);
      rdma_destroy_event_channel(asked.channel);
    }
    rdma_destroy_event_channel(client);
  }
}

/// A connection from its first command to its last, with both ends in this program. Each command but the last is
/// followed by an event.
class Life {
 public:
  static constexpr int kSteps = 7;

  Life() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const where = reinterpret_cast<sockaddr*>(&address_);
    begun_ = rdma_create_id(server_, &listener_, nullptr, RDMA_PS_TCP) == 0 && rdma_bind_addr(listener_, where) == 0 &&
             rdma_listen(listener_, 1) == 0 && rdma_create_id(client_, &asks_, nullptr, RDMA_PS_TCP) == 0;
    if (begun_) address_.sin_port = rdma_get_src_port(listener_);
  }
  ~Life() {
    for (rdma_cm_id* const id : {asks_, accepted_, listener_}) {
      if (id != nullptr) rdma_destroy_id(id);
    }
    for (rdma_event_channel* const channel : {client_, server_}) rdma_destroy_event_channel(channel);
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  bool begun() const { return begun_; }
  static const char* name(int step) { return kNames[step]; }
  /// About half of the requests for memory of today. What has places for its events needs none.
  static long fewest(int step) { return kFewest[step]; }

  /// 0, or -1 with errno.
  int command(int step) {
    rdma_conn_param param{};
    switch (step) {
      case 0:
        return rdma_resolve_addr(asks_, nullptr, reinterpret_cast<sockaddr*>(&address_), 2000);
      case 1:
        return rdma_resolve_route(asks_, 2000);
      case 2:
        param.qp_num = 0x3000;
        return rdma_connect(asks_, &param);
      case 3:
        param.qp_num = 0x3001;
        return rdma_accept(accepted_, &param);
      case 4:
        return rdma_establish(asks_);
      case 5:
        return rdma_disconnect(accepted_);
      default:
        return rdma_disconnect(asks_);
    }
  }

  bool has_event(int step, int patience_ms) const { return readable(channel(step), patience_ms); }

  /// Takes the event of a step. False: it is another one.
  bool take_event(int step) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel(step), &event) != 0) return false;
    const bool good = event->event == kEvents[step];
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) accepted_ = event->id;
    rdma_ack_cm_event(event);
    return good;
  }

 private:
  static constexpr const char* kNames[kSteps] = {"rdma_resolve_addr",
                                                 "rdma_resolve_route",
                                                 "rdma_connect",
                                                 "rdma_accept",
                                                 "rdma_establish",
                                                 "rdma_disconnect",
                                                 "rdma_disconnect of the other end"};
  static constexpr rdma_cm_event_type kEvents[kSteps] = {RDMA_CM_EVENT_ADDR_RESOLVED,   RDMA_CM_EVENT_ROUTE_RESOLVED,
                                                         RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_RESPONSE,
                                                         RDMA_CM_EVENT_ESTABLISHED,     RDMA_CM_EVENT_DISCONNECTED,
                                                         RDMA_CM_EVENT_DISCONNECTED};

  static constexpr long kFewest[kSteps] = {3, 1, 11, 0, 0, 0, 0};

  rdma_event_channel* channel(int step) const { return step == 2 || step == 4 || step == 6 ? server_ : client_; }

  rdma_event_channel* const server_ = rdma_create_event_channel();
  rdma_event_channel* const client_ = rdma_create_event_channel();
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* asks_ = nullptr;
  rdma_cm_id* accepted_ = nullptr;
  sockaddr_in address_{};
  bool begun_ = false;
};

/// The n-th request for memory of one step fails, in whichever end: the command is refused, and done when it is given
/// again, or its event comes. True when there were as many.
bool live(Sweep& sweep, FailingMemory& memory, int troubled, long n) {
  Life life;
  bool good = life.begun(), failed = false;
  int step = 0;
  for (; step < Life::kSteps && good; step++) {
    if (step == troubled) memory.begin(n, Trouble::kOnce);
    int result = life.command(step);
    if (step == troubled) {
      for (int i = 0; i < 1000 && result == 0 && !memory.failed() && !life.has_event(step, 5); i++) {
      }
      memory.end();
      failed = memory.failed();
      if (result != 0 && failed) result = life.command(step);
    }
    good = result == 0 && life.has_event(step, 30'000) && life.take_event(step);
  }
  if (!good) sweep.complain(Life::name(std::max(step - 1, 0)), n, Trouble::kOnce, "has no event");
  return failed;
}

/// A program that waits for an event gets it, whatever memory there was when it came.
void events_need_no_memory(Sweep& sweep, FailingMemory& memory) {
  for (int step = 0; step < Life::kSteps && sweep.good(); step++) {
    long n = 1;
    while (sweep.good() && live(sweep, memory, step, n)) n++;
    std::printf("%s: %ld requests\n", Life::name(step), n - 1);
    if (sweep.good() && n - 1 < Life::fewest(step))
      sweep.complain(Life::name(step), n - 1, {}, "are hardly any requests for memory");
  }
}

/// Groups that one id joins, all of whose events wait.
class Joins {
 public:
  Joins() {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    begun_ = rdma_create_id(channel_, &id_, nullptr, RDMA_PS_UDP) == 0 &&
             rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&own), 2000) == 0 &&
             next_event(channel_) == RDMA_CM_EVENT_ADDR_RESOLVED;
  }
  ~Joins() {
    for (uint32_t i = 0; i < joined_; i++) {
      sockaddr_in group = group_of(i);
      rdma_leave_multicast(id_, reinterpret_cast<sockaddr*>(&group));
    }
    if (id_ != nullptr) rdma_destroy_id(id_);
    rdma_destroy_event_channel(channel_);
  }
  Joins(const Joins&) = delete;
  Joins& operator=(const Joins&) = delete;
  bool begun() const { return begun_; }

  bool join() {
    sockaddr_in group = group_of(joined_);
    if (rdma_join_multicast(id_, reinterpret_cast<sockaddr*>(&group), nullptr) != 0) return false;
    joined_++;
    return true;
  }
  /// Whether there is one for each group, and no more.
  bool takes_events() {
    uint32_t taken = 0;
    while (readable(channel_, taken < joined_ ? 30'000 : 0)) {
      if (next_event(channel_) != RDMA_CM_EVENT_MULTICAST_JOIN) return false;
      taken++;
    }
    return taken == joined_;
  }

 private:
  static sockaddr_in group_of(uint32_t i) {
    sockaddr_in group{};
    group.sin_family = AF_INET;
    group.sin_addr.s_addr = htonl(0xef010200 + i);
    return group;
  }

  rdma_event_channel* const channel_ = rdma_create_event_channel();
  rdma_cm_id* id_ = nullptr;
  bool begun_ = false;
  uint32_t joined_ = 0;
};

/// A group is joined, and tells of it, or the program hears that there was no memory, and joins it then.
void joins_are_told_of(Sweep& sweep, FailingMemory& memory) {
  constexpr int kBefore = 6;
  long n = 1;
  for (bool more = true; more && sweep.good(); n++) {
    Joins joins;
    bool good = joins.begun();
    for (int i = 0; i < kBefore; i++) good = good && joins.join();
    memory.begin(n, Trouble::kOnce);
    const bool joined = good && joins.join();
    memory.end();
    more = memory.failed();
    if (!joined) good = good && more && joins.join();
    if (!good || !joins.takes_events()) sweep.complain("rdma_join_multicast", n, Trouble::kOnce, "has no event");
  }
  if (sweep.good() && n < 15) sweep.complain("rdma_join_multicast", n, {}, "are hardly any requests for memory");
}

}  // namespace

void sweep_cm(Sweep& sweep, FailingMemory& memory) {
  sweep.of(change("rdma_migrate_id", migrate, [] { return 0; }));
  close_without_memory(sweep, memory);
  connected_end_without_memory(sweep, memory);
  events_need_no_memory(sweep, memory);
  joins_are_told_of(sweep, memory);
  requests_come_again(sweep, memory);
}

}  // namespace verbs_test
