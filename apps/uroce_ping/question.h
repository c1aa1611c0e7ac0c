// One request of connection management to a host: whoever speaks RoCE there answers it, also when nobody serves pings.
#pragma once

#include <netinet/in.h>

#include <optional>
#include <string>

#include "datagram_qp.h"
#include "owned.h"

namespace uroce::ping {

enum class Answer : uint8_t {
  kServed,  // somebody serves pings
  kRoce,    // the host speaks RoCE, and nobody serves pings
  kSilent,  // no answer in time
};

/// An IPv4 or IPv6 address, with a port.
struct Address {
  sockaddr_storage storage{};
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  void set_port(uint16_t port);
};

/// The address as text, without its port.
std::string text_of(const sockaddr* address);

class Question {
 public:
  /// Finds the device and the way to `host`. False, with one line in `error`, when there is none by `deadline`.
  bool resolve(Address& host, Clock::time_point deadline, std::string& error);
  /// Asks; to be called once, after `resolve`.
  std::optional<Answer> ask(Clock::time_point deadline, std::string& error);

  rdma_cm_id& id() { return *id_; }
  /// Where pings go, once they are served.
  const rdma_ud_param& served_at() const { return served_at_; }

 private:
  /// Null, with one line in `error`, at `deadline`.
  Event next_event(Clock::time_point deadline, std::string& error);
  bool expect(rdma_cm_event_type type, const char* what, Clock::time_point deadline, std::string& error);

  EventChannel channel_;
  Id id_;
  rdma_ud_param served_at_{};
};

}  // namespace uroce::ping
