// One RoCEv2 endpoint without a port of its own: frames come from a `Port`, time is handed in.
//
// An engine has no thread, reads no clock and does no I/O. Whoever drives it calls `turn` again and again:
// with every turn it takes what the port has received, looks at its timers and sends. One thread at a time may call an
// engine or anything that it made; which thread, is the program's affair (an endpoint has a lock for that, endpoint.h).
//
// Everything that an engine made goes before the engine does. All tables are sized by `EngineOptions`; making things
// allocates, nothing that sends or receives does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "uroce/address.h"
#include "uroce/completion_queue.h"
#include "uroce/destination.h"
#include "uroce/events.h"
#include "uroce/export.h"
#include "uroce/limits.h"
#include "uroce/memory_region.h"
#include "uroce/port.h"
#include "uroce/queue_pair.h"
#include "uroce/shared_receive_queue.h"
#include "uroce/time.h"

namespace uroce::rdma {

class Endpoint;

struct EngineOptions {
  MacAddress mac;                         // must not be zero
  std::vector<LocalAddress> addresses;    // GIDs 1.. in this order; GID 0 is the link-local address of `mac`
  uint32_t max_frame_bytes = 4096 + 128;  // of the port: bounds the path MTU
  uint32_t max_qps = 4096;
  uint32_t max_regions = 65536;
  uint8_t traffic_class = 0;  // of queue pairs that ask for none
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  std::string congestion;                          // "", "dcqcn", "timely", "swift"
  std::vector<std::string> congestion_parameters;  // "name=value", doc/congestion.md
  /// 0: queue pair numbers, keys and sequence numbers cannot be guessed. Else they repeat with the seed: for tests.
  uint64_t seed = 0;
};

class UROCE_API Engine {
 public:
  /// nullptr and one clear line in `error` when an option makes no sense. `port` and `listener` outlive the engine;
  /// `port` lends room for frames of `max_frame_bytes`.
  static std::unique_ptr<Engine> create(const EngineOptions& options, Port& port, EventListener* listener,
                                        std::string& error);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Receives a burst, looks at timers, sends. Returns how much happened (frames in and out): 0 is idle.
  uint32_t turn(Instant now);
  /// Only sends: for what was posted a moment ago.
  uint32_t transmit(Instant now);
  /// The next instant at which a turn is needed even if no frame arrives; Instant::never() if none.
  Instant next_timeout() const;
  /// Something waits for the next turn.
  bool wants_transmit() const;

  /// The GID table: where `sgid_index` leads.
  std::span<const LocalAddress> gids() const;
  const MacAddress& mac() const;
  uint32_t active_mtu_bytes() const;  // the largest path MTU whose packets fit the port's frames
  /// `ip` has this MAC for good: ARP or neighbour discovery are not asked. False when the table is full.
  bool set_static_neighbour(const IpAddress& ip, const MacAddress& mac);

  /// A protection domain: a number that objects share that may work together. 0: the table is full.
  PdId allocate_pd();
  bool deallocate_pd(PdId pd);  // false: still in use
  CompletionQueue create_cq(uint32_t capacity);
  SharedReceiveQueue create_srq(PdId pd, uint32_t max_wr, uint32_t max_sge);
  /// `access`: Access bits. The bytes are named by their addresses.
  MemoryRegion register_memory(PdId pd, void* memory, uint64_t bytes, uint32_t access);
  QueuePair create_qp(const QueuePairOptions& options);
  /// Asks for the peer's MAC at once.
  Destination create_destination(PdId pd, const AddressVector& address, Instant now);

  /// Every counter by the name that doc/debugging.md explains.
  std::vector<std::pair<std::string, uint64_t>> counters() const;

 private:
  friend class Endpoint;
  explicit Engine(std::unique_ptr<EngineCore> core);

  std::unique_ptr<EngineCore> core_;
};

}  // namespace uroce::rdma
