// An engine on a DPDK port: EAL, port, clock and the question who drives.
//
// An engine has one owner at a time. `EngineLock` takes ownership for a scope; every call to the engine is made under
// one. In mode `kAuto` the program's own calls drive (the verbs shim calls `drive` when it polls), and a background
// thread takes over when nobody has driven for a while; it sleeps when nothing happens.
//
// DPDK keeps per-lcore caches by a thread-local lcore id. Ownership of the engine carries the id of the engine's lcore
// with it, so that every thread that drives uses the same caches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/time.h"
#include "congestion/config.h"
#include "engine/engine.h"

namespace uroce {

enum class Progress : uint8_t {
  kAuto,    // the program's polls drive; a background thread when nobody polls
  kInline,  // only the program's polls (and an lcore loop that calls drive)
  kThread,  // only the background thread, busy
};

enum class Hugepages : uint8_t { kAuto, kYes, kNo };

/// What a user can set. Empty fields mean: the default of the port.
struct EndpointConfig {
  std::string port;  // "", "memif", "net_memif0,...", "net_af_packet0,iface=eth0", "0000:03:00.0"
  std::vector<LocalAddress> addresses;
  std::vector<std::string> eal_args;  // passed through to EAL
  std::string pcap_file;              // pcapng of everything sent and received; "": none
  Progress progress = Progress::kAuto;
  Hugepages hugepages = Hugepages::kAuto;
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  uint32_t mtu = 0;             // IP MTU of the port; 0: the port's own, enough for RoCE MTU 4096 where possible
  CongestionConfig congestion;  // the link's speed is found out when the port is there
  uint8_t traffic_class = 0;    // of QPs whose program asks for none
  uint8_t lossless = 0;         // priorities with flow control (PFC), as bits
  bool eal_running = false;     // a DPDK application called rte_eal_init itself; `port` is then a port name or number
};

/// Reads UROCE_PORT, UROCE_ADDR, UROCE_EAL, UROCE_PCAP, UROCE_PROGRESS, UROCE_HUGEPAGES, UROCE_LOSS_RECOVERY,
/// UROCE_MTU, UROCE_CC, UROCE_CC_PARAM, UROCE_TCLASS, UROCE_PFC. False and one clear line in `error` when one of them
/// is malformed.
bool endpoint_config_from_environment(EndpointConfig& config, std::string& error);

/// Who this endpoint is, known without starting EAL: what `ibv_devices` needs.
struct EndpointIdentity {
  MacAddress mac;
  std::vector<LocalAddress> addresses;
  std::string netdev;  // kernel interface below the port, or ""
};

class Endpoint {
 public:
  /// Starts EAL (once per process), the port, the engine and the background thread. nullptr and one clear line in
  /// `error` (what is wrong, what to change) when that cannot be. `observer` outlives the endpoint.
  static std::unique_ptr<Endpoint> open(const EndpointConfig& config, Observer& observer, std::string& error);
  virtual ~Endpoint() = default;

  /// The port's MAC and addresses as `open` would use them now. Takes nothing: where a place on a wire decides, another
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
  virtual void flush(Instant now) = 0;
  void flush() { flush(now()); }
  /// Something asynchronous is awaited (an armed CQ, a sleeping program): the background thread shall look at once.
  virtual void kick() = 0;
  /// The program has woken up and is about to poll: the background thread stands back as after `drive`.
  virtual void attend() = 0;

 protected:
  friend class EngineLock;
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
