// Management datagrams (MADs) of this endpoint: those for queue pair 1 go to the sink, and those to be sent wait here
// until the peer's MAC is known. Queue pair 1 has no object, and none of the program's memory: the endpoint manages
// connections, not the program.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "packet/management_datagram.h"
#include "packet/packet.h"
#include "packet/route_header.h"
#include "transport/counters.h"
#include "uroce/address.h"
#include "uroce/port.h"
#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

/// A datagram as it came in. The bytes are a copy, valid within the call.
struct IncomingMad {
  IpAddress src_ip;
  IpAddress dst_ip;  // of ours
  uint16_t vlan_id = 0;
  uint32_t src_qpn = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  std::span<const uint8_t, kManagementBytes> bytes;
};

/// The connection manager. Called in the middle of a turn: it may call Engine::send_mad, which only queues, and no
/// other function that changes the engine.
class ManagementSink {
 public:
  virtual ~ManagementSink() = default;
  virtual void on_mad(const IncomingMad& mad, Instant now) = 0;
  /// Whether a request to our own address is for this program. Another program of the host may have the service.
  virtual bool takes_request(uint64_t /*service_id*/) { return true; }
};

class Management {
 public:
  static constexpr uint32_t kWaitingMax = 64;
  /// How many of them may wait for MACs: a sender that claims to be many hosts is answered as few, does not keep other
  /// peers from being answered, and causes few ARP requests.
  static constexpr uint32_t kUnresolvedMax = 16;
  /// How long a datagram waits for a MAC, or for the end of a pause. Its sender repeats it.
  static constexpr Duration kPatience = milliseconds(4000);

  explicit Management(Counters& counters) : counters_(counters) {}

  void attach(ManagementSink* sink) { sink_ = sink; }  // nullptr: no sink

  /// A packet for queue pair 1 with a good P_Key and iCRC.
  void on_packet(const PacketView& packet, Instant now);

  /// To be sent, from queue pair 1 to queue pair 1. The first one allocates. False when too many wait: then it is
  /// dropped and counted.
  bool push(const Route& path, std::span<const uint8_t, kManagementBytes> mad, Instant now);
  /// Releases the datagrams that wait for this MAC.
  void on_resolved(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);
  bool wants_transmit() const { return ready_ != 0; }
  /// When the next datagram expires.
  Instant next_timeout() const { return count_ != 0 ? entry(0).until : Instant::never(); }
  /// Drops what has waited too long.
  void expire(Instant now);
  /// Writes the next datagram into `frame`; `paused`: the paused priorities. False when there is none.
  bool poll_transmit(TxFrame& frame, uint8_t paused);
  bool takes_request(uint64_t service_id) const { return sink_ == nullptr || sink_->takes_request(service_id); }

 private:
  struct Entry {
    Route path;
    Instant until;
    std::array<uint8_t, kManagementBytes> mad;
  };
  struct Queue {
    std::array<Entry, kWaitingMax> entries;
    std::array<uint8_t, kWaitingMax> order;  // of entries: the oldest first, and behind them those that are free
  };
  const Entry& entry(uint32_t at) const { return queue_->entries[queue_->order[at]]; }
  Entry& entry(uint32_t at) { return queue_->entries[queue_->order[at]]; }
  void remove(uint32_t at);
  void encode(TxFrame& frame, const Entry& entry);

  Counters& counters_;
  ManagementSink* sink_ = nullptr;
  std::unique_ptr<Queue> queue_;  // from the first datagram on
  uint32_t count_ = 0;
  uint32_t ready_ = 0;  // of them, those whose MAC is known
  Psn psn_;
};

}  // namespace uroce
