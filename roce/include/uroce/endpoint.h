// An engine on a DPDK port: EAL, the port, the clock, and the lock that passes the engine between threads.
//
// Whoever calls the engine, or anything that it made, owns it: holds an `Ownership`. An lcore loop takes it once for
// each round; that costs a compare-and-swap, and where nothing happened for a while the CPU is offered to others after
// it.
//
// With ownership a thread has the lcore id of the endpoint, so that DPDK's caches are not shared: rte_lcore_id() is
// that one until it is given back, and mbufs of the application's own pools are no business of that scope.
//
// A process may have several endpoints. A thread owns one at a time, and none while it opens or closes one. In the
// child of a fork what was inherited is not to be touched, and no other can be opened: exec, or end with _exit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "uroce/address.h"
#include "uroce/engine.h"
#include "uroce/events.h"
#include "uroce/export.h"
#include "uroce/time.h"

namespace uroce::rdma {

enum class Drive : uint8_t {
  kProgram,     // only who calls Endpoint::drive: an lcore loop
  kBackground,  // only a thread of the endpoint, busy
  kBoth,        // the program when it drives; the thread when it has not for a while
};

struct EndpointOptions {
  /// A DPDK port as `uroce run --port` names it ("net_memif0,...", "0000:03:00.0", ...; doc/configuration.md). With
  /// `eal_running` the name or number of a port that the application has, not started; "": the first.
  std::string port;
  std::vector<LocalAddress> addresses;  // of this endpoint; none: those of the kernel interface below, or of the wire
  bool eal_running = false;             // the application called rte_eal_init itself
  std::vector<std::string> eal_args;    // else: for rte_eal_init
  std::string pcap_file;                // pcapng of everything sent and received; "": none
  Drive drive = Drive::kProgram;
  uint32_t mtu = 0;  // of the port, in bytes of IP; 0: the port's own
  uint8_t traffic_class = 0;
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  std::string congestion;                          // "", "dcqcn", "timely", "swift"
  std::vector<std::string> congestion_parameters;  // "name=value", doc/congestion.md
};

class UROCE_API Endpoint {
 public:
  /// nullptr and one clear line in `error` (what is wrong, what to change) when that cannot be. `listener` may be null,
  /// and outlives the endpoint.
  static std::unique_ptr<Endpoint> open(const EndpointOptions& options, EventListener* listener, std::string& error);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Owns the engine for a scope. Not to be taken twice by one thread.
  class UROCE_API Ownership {
   public:
    explicit Ownership(Endpoint& endpoint);
    ~Ownership();
    Ownership(const Ownership&) = delete;
    Ownership& operator=(const Ownership&) = delete;

   private:
    Endpoint& endpoint_;
  };

  Engine& engine() { return *engine_; }  // its calls: under an Ownership
  /// One turn of the engine, and a note that somebody drives. Under an Ownership.
  uint32_t drive();

  // Any time, by any thread.
  Instant now() const;
  bool link_up() const;
  uint64_t link_speed_mbps() const;  // 0: unknown
  const std::string& port_name() const;

 private:
  Endpoint();

  struct Opened;
  std::unique_ptr<Engine> engine_;  // hears the events of `opened_`, which goes first
  std::unique_ptr<Opened> opened_;
};

}  // namespace uroce::rdma
