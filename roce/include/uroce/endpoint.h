// A device on a DPDK port: EAL, the port, the clock, and the lock that passes the device between threads.
//
// A thread that calls the device, or anything that the device made, must own it, that is, hold an `Ownership`. An lcore
// loop takes it once for each round. That costs a compare-and-swap; when nothing has happened for a while, giving it
// back also offers the CPU to other threads.
//
// While a thread holds the ownership, it has the lcore id of the endpoint, so that DPDK's per-lcore caches are not
// shared: rte_lcore_id() returns that id until the ownership is given back. Do not use mbufs of the application's own
// pools in that scope.
//
// A process may have several endpoints. A thread owns one at a time, and none while it opens or closes one. The child
// of a fork must not touch what it inherited. It may open an endpoint of its own on a segment (the default port),
// call exec, and exit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "uroce/address.h"
#include "uroce/connections.h"
#include "uroce/device.h"
#include "uroce/events.h"
#include "uroce/export.h"
#include "uroce/time.h"

namespace uroce::rdma {

enum class Drive : uint8_t {
  kProgram,     // only the program, by calling Endpoint::drive: an lcore loop
  kBackground,  // only a thread of the endpoint, which polls all the time
  kBoth,        // the program when it drives; the thread when the program has not for a while
};

struct EndpointOptions {
  /// A port as `uroce run --port` names it ("net_memif0,...", "0000:03:00.0", ...; doc/configuration.md). "" is the
  /// segment, as there: shared memory with all programs of the machine, and no EAL. With `eal_running` it is the name
  /// or number of a port of the application that is not started; "" is the first one.
  std::string port{};
  std::vector<LocalAddress>
      addresses{};           // of this endpoint; none: those of the kernel interface below, the machine, or the wire
  bool eal_running = false;  // the application called rte_eal_init itself
  std::vector<std::string> eal_args{};  // else, where the port is DPDK's: for rte_eal_init
  std::string pcap_file{};              // pcapng of everything sent and received; "": none
  Drive drive = Drive::kProgram;
  uint32_t mtu = 0;  // of the port, in bytes of IP; 0: the port's own
  uint8_t traffic_class = 0;
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  std::string faults{};      // what goes wrong on the way to the port, as `uroce run --faults` takes it; "": nothing
  std::string congestion{};  // "" (none) or its name, as UROCE_CC has it: "dcqcn", ...
  std::vector<std::string> congestion_parameters{};  // "name=value", doc/congestion.md
};

class UROCE_API Endpoint {
 public:
  /// Returns nullptr, with one line in `error` (what is wrong, and what to change), when the endpoint cannot be opened.
  /// `listener` may be null; otherwise it must outlive the endpoint.
  static std::unique_ptr<Endpoint> open(const EndpointOptions& options, EventListener* listener, std::string& error);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Owns the device for a scope; waits until it can. A thread must not take it twice.
  class UROCE_API Ownership {
   public:
    explicit Ownership(Endpoint& endpoint);
    ~Ownership();
    Ownership(const Ownership&) = delete;
    Ownership& operator=(const Ownership&) = delete;

   private:
    Endpoint& endpoint_;
  };

  Device& device() { return *device_; }  // to be called under an Ownership
  /// Makes one turn of the device, and notes that the program drives. To be called under an Ownership. Returns what
  /// Device::turn does.
  uint32_t drive();
  /// Only sends. For a program that has just posted something and does not want to wait for the next turn. To be called
  /// under an Ownership.
  void transmit();
  /// Drives until `cq` has completions, and takes up to out.size() of them. Gives the ownership back between turns. 0:
  /// none came within `patience`. To be called under an Ownership.
  uint32_t wait(CompletionQueue& cq, std::span<Completion> out, Duration patience = milliseconds(10'000));
  /// Connections by IP address and port. To be called under an Ownership. Until the first call there is no listener,
  /// and requests are refused.
  Connections& connections();

  /// Every counter by the name that doc/debugging.md explains: of the transport, of the port, and, under names that
  /// begin with `cm_`, of connection management. To be called under an Ownership.
  std::vector<std::pair<std::string, uint64_t>> counters() const;

  // These may be called at any time by any thread.
  Instant now() const;
  bool link_up() const;
  uint64_t link_speed_mbps() const;  // 0: unknown
  const std::string& port_name() const;

 private:
  Endpoint();

  struct Opened;
  std::unique_ptr<Device> device_;  // receives the events of `opened_`, which is destroyed first
  std::unique_ptr<Opened> opened_;
  std::unique_ptr<Connections> connections_;  // destroyed first
};

}  // namespace uroce::rdma
