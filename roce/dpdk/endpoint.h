// An engine on a DPDK port: EAL, port, clock, and the thread that drives.
//
// An engine has one owner at a time. `EngineLock` takes ownership for a scope; every call to the engine is made under
// one. In mode `kAuto` the program's own calls drive (the verbs shim calls `drive` when it polls), and a background
// thread takes over when they have stopped for a while; it sleeps when nothing happens.
//
// DPDK keeps per-lcore caches by a thread-local lcore id. Ownership of the engine carries the id of the engine's lcore
// with it, so that every thread that drives uses the same caches.
//
// A process may have several endpoints, each with a port, an engine, an owner, an lcore id and a background thread of
// its own, driven at the same time. EAL is one, and stays when the last endpoint goes. A thread owns one engine at a
// time; one that needs several takes them in the order in which they were opened, and gives them back in reverse order.
// A thread that owns an engine must not open or close an endpoint: both wait for DPDK's interrupt thread, which may be
// waiting for that owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/no_cancel.h"
#include "engine/engine.h"
#include "host/endpoint_config.h"
#include "host/endpoint_identity.h"
#include "uroce/time.h"

namespace uroce {

class EndpointCm;  // dpdk/endpoint_cm.h
class Nic;         // dpdk/nic.h

class Endpoint {
 public:
  /// Starts EAL (once per process, with the options of the first endpoint that needs it; a segment, the port by
  /// default, does not), the port, the engine and the background thread. Returns nullptr, with one line in `error`
  /// (what is wrong, and what to change), when that fails; `is_out_of_memory` (base/out_of_memory.h) tells whether
  /// memory was the reason. `observer` outlives the endpoint.
  static std::unique_ptr<Endpoint> open(const EndpointConfig& config, Observer& observer, std::string& error);
  virtual ~Endpoint() = default;

  /// The port's MAC and addresses as `open` would use them now. Takes no end on a wire, so another process may take
  /// the end that decides the addresses before this one opens it.
  static bool identify(const EndpointConfig& config, EndpointIdentity& identity, std::string& error);

  virtual Engine& engine() = 0;     // to be called under an EngineLock
  virtual Instant now() const = 0;  // TSC, nanoseconds
  virtual bool link_up() const = 0;
  virtual uint64_t link_speed_mbps() const = 0;
  virtual const EndpointIdentity& identity() const = 0;  // does not change
  virtual const std::string& port_name() const = 0;
  virtual const std::string& netdev_name() const = 0;  // the kernel interface that the port uses, or ""
  /// Makes one turn, and notes that the program drives. To be called under an EngineLock.
  virtual uint32_t drive() = 0;
  /// Only transmits. To be called under an EngineLock.
  virtual void transmit(Instant now) = 0;
  void transmit() { transmit(now()); }
  /// The program waits for an event (it armed a CQ, or sleeps): the background thread looks at once.
  virtual void wake_thread() = 0;
  /// The program has woken up and is about to poll, so the background thread stands back as after `drive`.
  virtual void note_awake() = 0;

  /// Connections by IP address and port. It is to be used under an EngineLock.
  virtual EndpointCm& connections() = 0;
  virtual Nic& nic() = 0;

  using Counter = std::function<void(const char* name, uint64_t value)>;
  /// Of the engine, of the NIC, and, under names that begin with `cm_`, of connection management. To be called under
  /// an EngineLock.
  void for_each_counter(const Counter& f);

  /// Used by the locks below.
  virtual void lock() = 0;
  virtual void unlock() = 0;
};

/// For the calls of the data path, which reach no cancellation point of libc but in `drive` and `transmit`, and those
/// see to it themselves.
class BriefEngineLock {
 public:
  explicit BriefEngineLock(Endpoint& endpoint) : endpoint_(endpoint) { endpoint_.lock(); }
  ~BriefEngineLock() { endpoint_.unlock(); }
  BriefEngineLock(const BriefEngineLock&) = delete;
  BriefEngineLock& operator=(const BriefEngineLock&) = delete;
  Engine& engine() { return endpoint_.engine(); }
  Engine* operator->() { return &endpoint_.engine(); }

 private:
  Endpoint& endpoint_;
};

/// The thread is not cancelled (pthread_cancel) while it owns the engine, which nobody would then release.
class EngineLock : NoCancel, public BriefEngineLock {
 public:
  using BriefEngineLock::BriefEngineLock;
};

}  // namespace uroce
