// Random calls of librdmacm: in any order, on ids in any state, with arguments that fit and that do not. Left out is
// what librdmacm itself does not survive or forbids: connecting and queue pairs before there is a device, and ending
// what has events that are not acknowledged.
//
// A model says whether the main transitions of an id succeed; everything else has to end, and with an errno that says
// something.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <memory>
#include <vector>

#include "cm_fuzz.h"

namespace cm_fuzz {

enum class Stage : uint8_t { kIdle, kBound, kResolving, kAddrResolved, kRouteResolved, kConnect, kListen, kUnknown };

struct Endpoint {
  rdma_cm_id* id = nullptr;
  bool has_channel = true;  // false: a channel of its own, and calls that would wait
  bool datagram = false;
  Stage stage = Stage::kIdle;
  std::vector<sockaddr_in> groups;
};

struct Taken {
  rdma_cm_event* event;
  rdma_cm_id* owner;  // the id that waits for the acknowledgement
};

class Caller {
 public:
  Caller(Random& random, Judge& judge);
  void step();
  void finish();

 private:
  static constexpr size_t kEndpointsMax = 30;

  Endpoint* any();
  Endpoint* any_in(Stage stage);
  Endpoint* find(const rdma_cm_id* id);
  sockaddr_in some_address(bool datagram);
  /// Checks a call that returned -1 or 0. `id`: the one for whose event the call waits.
  bool sane(const char* call, int result, const rdma_cm_id* id = nullptr);
  /// Checks a call whose success the model knows.
  void predicted(const char* call, int result, bool succeeds);
  Endpoint& add(rdma_cm_id* id, bool has_channel, Stage stage);

  void create();
  void create_endpoint();
  void destroy();
  void destroy(Endpoint& endpoint);
  void bind();
  void resolve_addr();
  void resolve_route();
  void listen();
  void connect();
  void accept();
  void reject();
  void disconnect();
  void establish();
  void take_event();
  void on_event(rdma_cm_event* event);
  void acknowledge();
  void acknowledge_all(const rdma_cm_id* owner);
  void migrate();
  void create_qp();
  void destroy_qp();
  void join();
  void leave();
  void set_option();
  void attributes();
  void ask();
  void get_request();
  void forward();
  void renew_channel();

  Random& random_;
  Judge& judge_;
  std::vector<rdma_event_channel*> channels_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<Taken> taken_;
};

}  // namespace cm_fuzz
