// Where frames come from and go to: the interface between the engine and DPDK, the simulator or a script.
//
// Calls come once per burst, from the thread that owns the engine.
#pragma once

#include <cstdint>

#include "uroce/address.h"

namespace uroce {

/// Where a port passes frames for one destination on to, as it said when it was asked (NextHops). With a frame that
/// names it the port need not look for the destination again. A hop of an earlier epoch does no harm: the port looks
/// into the frame then, as it does without a hop.
struct NextHop {
  void* place = nullptr;  // the port's own; nullptr: none
  uint64_t epoch = 0;     // of the port when it was asked
};

/// A port that forwards by destination says here once where frames for one go.
class NextHops {
 public:
  virtual ~NextHops() = default;
  /// For the queue pair of that number behind that MAC. Without a place when the port has to look at each such frame.
  virtual NextHop find(const MacAddress& dst, uint32_t dest_qpn) = 0;
  /// Port::congested for a hop with a place, of this epoch.
  virtual bool congested(const NextHop& hop) = 0;
  /// Begins at 1, and goes up whenever a hop may be another one than before.
  virtual const uint64_t& epoch() const = 0;
};

/// Room for one frame to send. The port that lent the buffer owns it; the engine that fills it sets `bytes`.
struct TxFrame {
  uint8_t* data = nullptr;
  uint32_t capacity = 0;
  uint32_t bytes = 0;     // 0: not used; the port takes the buffer back
  void* token = nullptr;  // the port's own
  NextHop hop = {};       // of the frame's destination, if the engine keeps it
};

/// A received frame. The port owns the bytes until `release_rx`.
struct RxFrame {
  static constexpr uint32_t kHeaderBytes = 128;  // more than all headers of a packet together

  const uint8_t* data = nullptr;
  uint32_t bytes = 0;
  void* token = nullptr;  // the port's own
  /// The first kHeaderBytes (or `bytes` if fewer) of the frame in memory that nobody else can write, when `data` is
  /// memory that a peer may change at any time. Headers are read here only; payload and iCRC, in `data`, wherever they
  /// begin. nullptr: `data` does not change.
  const uint8_t* headers = nullptr;
};

class Port {
 public:
  static constexpr uint32_t kMaxBurst = 64;

  virtual ~Port() = default;

  /// Takes up to `max` (<= kMaxBurst) received frames. Returns how many.
  virtual uint32_t receive(RxFrame* frames, uint32_t max) = 0;
  virtual void release_rx(RxFrame* frames, uint32_t count) = 0;
  /// How many frames have arrived and were not received yet; kBacklogUnknown from a port that cannot tell.
  virtual uint32_t rx_backlog() { return kBacklogUnknown; }
  static constexpr uint32_t kBacklogUnknown = UINT32_MAX;

  /// Buffers for up to `max` (<= kMaxBurst) frames that the port is sure to take; fewer, or none, when it is congested.
  virtual uint32_t acquire_tx(TxFrame* frames, uint32_t max) = 0;
  /// Sends those with bytes != 0 in order, and takes back the buffers of all.
  virtual void send(TxFrame* frames, uint32_t count) = 0;

  /// True for a port that has a queue for each destination; the same for as long as it lives. Only such a port is asked
  /// whether a destination is congested.
  virtual bool queues_by_destination() const { return false; }
  /// Whether a frame for this destination would have to wait in the port now, because its receiver takes none; the
  /// engine then asks QPs with other destinations first. Ports with one queue for all destinations answer no. Number 0:
  /// a raw packet, whose destination is not known yet.
  virtual bool congested(const MacAddress& /*dst*/, uint32_t /*dest_qpn*/) { return false; }
  /// nullptr: it has none; the same for as long as it lives. A port that keeps frames, or changes them, before it hands
  /// them to another port has none, whatever that port has.
  virtual NextHops* next_hops() { return nullptr; }
};

}  // namespace uroce
