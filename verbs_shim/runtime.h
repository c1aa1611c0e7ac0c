// The one endpoint of this process, behind every context that the program opens.
#pragma once

#include <memory>

#include "dpdk/endpoint.h"
#include "dpdk/log.h"
#include "uroce/time.h"

namespace uroce::verbs {

class Runtime {
 public:
  /// Never destroyed: threads of the program may still poll while it exits.
  static Runtime& get();

  /// Who we are, without starting anything: before the device is open, who we would be if it were opened now. In the
  /// child of a fork, who the parent is. False: the log says why.
  bool identify(EndpointIdentity& identity, LogLevel level = LogLevel::kError);
  /// Starts the endpoint with the first call. False: said why on stderr, errno is set.
  bool open();
  bool is_open() const;
  const EndpointConfig& config() const { return config_; }

 private:
  Runtime() = default;
  bool configure();
  static void watch_forks();
  static void on_fork_child();

  bool configured_ = false;
  bool identified_ = false;
  EndpointConfig config_;
  EndpointIdentity identity_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Observer> observer_;
};

extern Endpoint* open_endpoint;  // what Runtime opened: one load on the data path
/// Only where an ibv_context exists, which proves that it is open.
inline Endpoint& endpoint() { return *open_endpoint; }

/// True in the child of a fork whose parent has opened the device: what the child inherited stays the parent's. Every
/// entry point that would seem to work there asks first, and returns `refuse_to_child()`.
extern bool device_is_the_parents;
/// Says so once. Returns ENODEV; errno is set, too.
int refuse_to_child();

std::unique_ptr<Observer> make_observer();

/// Drives the engine until `done(engine)` holds; false when `patience` ran out first.
template <typename Done>
bool drive_until(Duration patience, Done&& done);
void pause_between_turns();

template <typename Done>
bool drive_until(Duration patience, Done&& done) {
  const Instant end = endpoint().now() + patience;
  for (;;) {
    uint32_t work = 0;
    {
      EngineLock lock(endpoint());
      if (done(lock.engine())) return true;
      work = endpoint().drive();
    }
    if (endpoint().now() >= end) return false;
    if (work == 0) pause_between_turns();
  }
}

}  // namespace uroce::verbs
