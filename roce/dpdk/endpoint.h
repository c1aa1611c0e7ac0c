// An engine on a DPDK port: EAL, port, clock and the question who drives.
//
// An engine has one owner at a time. `EngineLock` takes ownership for a scope; every call to the engine is made under
// one. In mode `kAuto` the program's own calls drive (the verbs shim calls `drive` when it polls), and a background
// thread takes over when nobody has driven for a while; it sleeps when nothing happens.
//
// DPDK keeps per-lcore caches by a thread-local lcore id. Ownership of the engine carries the id of the engine's lcore
// with it, so that every thread that drives uses the same caches.
//
// A process may have several endpoints, each with a port, an engine, an owner, an lcore id and a background thread of
// its own, driven at the same time. EAL is one, and stays when the last endpoint goes. A thread owns one engine at a
// time; one that needs several takes them in the order in which they were opened, and gives them back in reverse. Who
// owns one opens and closes no endpoint: both wait for DPDK's interrupt thread, which may wait for that owner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "host/endpoint_config.h"
#include "host/endpoint_identity.h"
#include "uroce/time.h"

namespace uroce {

class Endpoint {
 public:
  /// Starts EAL (once per process, with what the first endpoint asks for), the port, the engine and the background
  /// thread. nullptr and one clear line in `error` (what is wrong, what to change) when that cannot be. `observer`
  /// outlives the endpoint.
  static std::unique_ptr<Endpoint> open(const EndpointConfig& config, Observer& observer, std::string& error);
  virtual ~Endpoint() = default;

  /// The port's MAC and addresses as `open` would use them now. Takes nothing: where the end of a wire decides, another
  /// process may be the first to open it.
  static bool identify(const EndpointConfig& config, EndpointIdentity& identity, std::string& error);

  virtual Engine& engine() = 0;     // under an EngineLock
  virtual Instant now() const = 0;  // TSC, nanoseconds
  virtual bool link_up() const = 0;
  virtual uint64_t link_speed_mbps() const = 0;
  virtual const EndpointIdentity& identity() const = 0;  // does not change
  virtual const std::string& port_name() const = 0;
  virtual const std::string& netdev_name() const = 0;  // kernel interface below it, or ""

  /// One turn, and a note that somebody drives. Under an EngineLock.
  virtual uint32_t drive() = 0;
  /// Only transmit. Under an EngineLock.
  virtual void transmit(Instant now) = 0;
  void transmit() { transmit(now()); }
  /// Something asynchronous is awaited (an armed CQ, a sleeping program): the background thread shall look at once.
  virtual void kick() = 0;
  /// The program has woken up and is about to poll: the background thread stands back as after `drive`.
  virtual void note_awake() = 0;

  /// What an EngineLock does.
  virtual void lock() = 0;
  virtual void unlock() = 0;
};

class EngineLock {
 public:
  explicit EngineLock(Endpoint& endpoint) : endpoint_(endpoint) { endpoint_.lock(); }
  ~EngineLock() { endpoint_.unlock(); }
  EngineLock(const EngineLock&) = delete;
  EngineLock& operator=(const EngineLock&) = delete;
  Engine& engine() { return endpoint_.engine(); }
  Engine* operator->() { return &endpoint_.engine(); }

 private:
  Endpoint& endpoint_;
};

}  // namespace uroce
