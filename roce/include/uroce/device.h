// An RDMA device over a port of the caller's: frames come from a `Port`, and the caller passes the time.
//
// A device has no thread, reads no clock and does no I/O, but that it signals completion channels. The thread that
// drives it calls `turn` again and again: in every turn the device takes what the port has received, looks at its
// timers and sends. Calls between two turns happen at the time of the first of them. (An endpoint has a
// clock, and `Endpoint::drive` in place of `turn`: endpoint.h.) Only one thread at a time may call a device or
// anything that it made; the program sees to that (an endpoint has a lock for it, endpoint.h).
//
// Everything that a device made must be destroyed before the device. All tables are sized by `DeviceOptions`; making
// objects allocates memory, sending and receiving does not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "uroce/address.h"
#include "uroce/completion_channel.h"
#include "uroce/completion_queue.h"
#include "uroce/destination.h"
#include "uroce/events.h"
#include "uroce/export.h"
#include "uroce/limits.h"
#include "uroce/memory_region.h"
#include "uroce/memory_window.h"
#include "uroce/port.h"
#include "uroce/queue_pair.h"
#include "uroce/shared_receive_queue.h"
#include "uroce/time.h"

namespace uroce::rdma {

class Endpoint;

struct DeviceOptions {
  MacAddress mac{};                       // must not be zero
  std::vector<LocalAddress> addresses{};  // GIDs 1.. in this order; GID 0 is the link-local address of `mac`
  uint32_t max_frame_bytes = 4096 + 128;  // largest frame of the port; limits the path MTU
  uint32_t max_qps = 4096;
  uint32_t max_regions = 65536;
  uint8_t traffic_class = 0;  // for queue pairs that set none
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  std::string congestion{};                          // "" (none) or its name: "dcqcn", ...
  std::vector<std::string> congestion_parameters{};  // "name=value", doc/congestion.md
  /// With 0, queue pair numbers, keys and sequence numbers cannot be guessed. Any other seed makes them repeat, for
  /// tests.
  uint64_t seed = 0;
  Instant start{0};  // the time when the device is made; `turn` and `transmit` are told no earlier one
};

class UROCE_API Device {
 public:
  /// Returns nullptr, with one line in `error`, when an option makes no sense. `port` and `listener` (which may be
  /// null) must outlive the device; `port` must lend room for frames of `max_frame_bytes`.
  static std::unique_ptr<Device> create(const DeviceOptions& options, Port& port, EventListener* listener,
                                        std::string& error);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Receives a burst, looks at timers, sends. Returns the number of frames received and sent; 0 means that the device
  /// was idle.
  uint32_t turn(Instant now);
  /// Only sends. For a program that has just posted something and does not want to wait for the next turn.
  uint32_t transmit(Instant now);
  /// The next instant at which a turn is needed even if no frame arrives; Instant::never() if none.
  Instant next_timeout() const;
  /// True when something waits to be sent in the next turn.
  bool wants_transmit() const;

  /// The GID table, which is indexed by `sgid_index`.
  std::span<const LocalAddress> gids() const;
  const MacAddress& mac() const;
  uint32_t active_mtu_bytes() const;  // the largest path MTU whose packets fit the port's frames
  /// From now on `ip` has this MAC address, and neither ARP nor neighbour discovery is asked. False when the table is
  /// full.
  bool set_static_neighbour(const IpAddress& ip, const MacAddress& mac);

  /// Makes a protection domain: a number that is shared by objects that may work together. 0 when the table is full.
  PdId allocate_pd();
  bool deallocate_pd(PdId pd);  // false when it is still in use
  /// With a `channel`, which outlives the queue, its events can be waited for (CompletionQueue::request_event).
  CompletionQueue create_cq(uint32_t capacity, const CompletionChannel* channel = nullptr);
  CompletionChannel create_channel();
  SharedReceiveQueue create_srq(PdId pd, uint32_t max_wr, uint32_t max_sge);
  /// `access` are Access bits. Work requests and peers name the bytes by their addresses in this process.
  MemoryRegion register_memory(PdId pd, void* memory, uint64_t bytes, uint32_t access);
  MemoryWindow create_window(PdId pd);
  QueuePair create_qp(const QueuePairOptions& options);
  /// Starts to resolve the peer's MAC address at once.
  Destination create_destination(PdId pd, const AddressVector& address);

  /// Every counter of the transport by the name that doc/debugging.md explains. An endpoint has more.
  std::vector<std::pair<std::string, uint64_t>> counters() const;

 private:
  friend class Endpoint;
  explicit Device(std::unique_ptr<DeviceCore> core);

  std::unique_ptr<DeviceCore> core_;
};

}  // namespace uroce::rdma
