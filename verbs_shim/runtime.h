// The one endpoint of this process, behind every context that the program opens.
#pragma once

#include <atomic>
#include <memory>

#include "base/immortal.h"
#include "base/no_cancel.h"
#include "dpdk/endpoint.h"
#include "dpdk/log.h"
#include "uroce/time.h"

namespace uroce::verbs {

class Runtime {
 public:
  /// Never destroyed: threads of the program may still poll while it exits.
  static Runtime& get();

  /// The identity of the device, without starting anything: if the device is not open, what it would be if it were
  /// opened now; in the child of a fork whose parent had it open, what it is there. False when it cannot be found out;
  /// the log says why, and errno is ENODEV, or ENOMEM for want of memory.
  bool identify(EndpointIdentity& identity, LogLevel level = LogLevel::kError);
  /// Starts the endpoint with the first call. False when that fails: then the reason was printed on stderr, and errno
  /// is set.
  bool open();
  /// In the child of a fork: whether the child has opened it.
  bool is_open() const;
  const EndpointConfig& config() const { return config_; }
  /// From now on the child of a fork leaves to its parent what is the parent's.
  static void watch_forks();

 private:
  friend class Immortal<Runtime>;
  Runtime() = default;
  bool configure();
  static void on_fork_child();

  std::atomic<bool> opened_{false};  // published after `open_endpoint`
  bool configured_ = false;
  bool identified_ = false;
  EndpointConfig config_;
  EndpointIdentity identity_;
  std::string open_failure_;  // why it could not be opened the last time it was tried
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Observer> observer_;
};

/// What Runtime opened; a global, so that the data path needs one load. In the child of a fork that has not opened the
/// device, its parent's, in which nothing happens any more.
extern Endpoint* open_endpoint;
/// To be called only where an ibv_context exists, which proves that the endpoint is open.
inline Endpoint& endpoint() { return *open_endpoint; }

/// True in the child of a fork whose parent had opened the device: what the child inherited stays the parent's, also
/// after the child has opened the device itself. Every entry point asks `is_the_parents` (objects.h) of the objects
/// that it is given, and returns `refuse_to_child()`; those that destroy do nothing.
extern bool has_inherited_objects;
/// How many forks are between this process and the first.
extern uint32_t fork_generation;
/// Logs the reason once. Returns ENODEV, and sets errno.
int refuse_to_child();

std::unique_ptr<Observer> make_observer();
/// In the child of a fork: the contexts that are open are the parent's.
void leave_contexts();

/// Drives the engine until `done(engine)` holds. False when `patience` is over before that.
template <typename Done>
bool drive_until(Duration patience, Done&& done);
void pause_between_turns();

template <typename Done>
bool drive_until(Duration patience, Done&& done) {
  const NoCancel in_a_call_that_does_not_wait_long;
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
