// An output-queued Ethernet switch with a shared buffer, without ports, threads or a clock of its own.
//
// Frames are handed in as they arrive (`on_frame`) and taken out by the owner of the cables (`poll_transmit`): a
// simulated link when its transmitter becomes idle, or a loop that polls all real ports. The owner knows how long a
// frame takes to leave; a `rate_cap` makes a port slower than its caller.
//
//   classify     PCP of a tagged frame, else DSCP
//   forward      routes set by `add_route` (several ports: ECMP by flow), else learned addresses, else flooding
//   admit        lossless priorities by their ingress share (dynamic threshold, then XOFF, then headroom),
//                lossy ones by the share of their egress queue
//   queue        one per port and priority; strict ones first, then deficit round robin
//   mark         ECN when a frame leaves, by the bytes left behind in the queue, which is the most recent state
//   leave        unless the neighbour paused this priority
//
// Nothing is allocated per frame once the queues have reached their greatest length. A frame takes constant time. All
// randomness comes from the seed: the same frames at the same instants give the same bytes. For one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "fabric/ecn_marker.h"
#include "fabric/egress.h"
#include "fabric/forwarding_table.h"
#include "fabric/frame.h"
#include "fabric/frame_fields.h"
#include "fabric/rate_cap.h"
#include "fabric/shared_buffer.h"
#include "fabric/switch_config.h"
#include "fabric/switch_counters.h"
#include "uroce/time.h"

namespace uroce::fabric {

class Switch {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    /// The last `poll_transmit(port)` returned nothing (or there was none yet), and the next one may return a frame.
    /// The listener may call it from inside this function.
    virtual void on_port_ready(PortId port, Instant now) = 0;
  };

  /// `config` must have passed check_config. `random` is used only in the constructor, for the seeds of the switch's
  /// own streams. A loop that polls every port needs no listener.
  Switch(const SwitchConfig& config, FramePool& pool, RandomSource& random, Listener* listener = nullptr);
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  /// A whole frame has arrived at `port`. The switch owns it from now on.
  void on_frame(PortId port, FabricFrame frame, Instant now);

  /// The next frame to leave `port`, which the caller then owns, or a frame without data when none may leave now. The
  /// frame has left the buffer; the caller takes care of its time on the cable.
  FabricFrame poll_transmit(PortId port, Instant now);
  /// The pause frame that poll_transmit would return first, if one is due, and nothing else. For a caller that holds
  /// the other frames back to make a port slower: a pause frame must not wait with them while the buffer fills up.
  FabricFrame poll_pause_frame(PortId port, Instant now);

  /// When `on_time` has to be called: a pause by the neighbour runs out, a pause by the switch has to be repeated, a
  /// capped port may send again, or a queue is stuck. It may be early but never late; Instant::never() when there is
  /// nothing to do. Any call may change it. A loop that polls every port all the time may call `on_time` every few
  /// microseconds instead of asking.
  Instant next_event() const { return wake_at_; }
  void on_time(Instant now);

  // Control; may be called at any time.

  /// Frames for `mac` leave by one of `ports`, chosen by their flow. Replaces an earlier route. False when there are no
  /// ports or too many (kMaxGroupPorts), or when one does not exist.
  bool add_route(const MacAddress& mac, std::span<const PortId> ports);
  /// A port that is down takes and sends no frames, and loses those that wait there. Its flows of ECMP routes go by the
  /// other ports; the flows of the other ports stay where they are. At the beginning all ports are up.
  void set_port_up(PortId port, bool up, Instant now);
  void set_rate_cap(PortId port, uint64_t bits_per_second, uint32_t burst_bytes);

  // State, for display and tests.

  uint16_t port_count() const { return static_cast<uint16_t>(ports_.size()); }
  const SwitchPortCounters& counters(PortId port) const { return ports_[port].counters; }
  uint64_t queue_bytes(PortId port, unsigned priority) const { return ports_[port].egress.bytes(priority); }
  /// True while the switch holds the neighbour at `port` paused in this priority.
  bool pausing(PortId port, unsigned priority) const { return buffer_.paused(port, priority); }
  /// For how many nanoseconds the neighbour has kept `port` silent in this priority, including a pause that is still
  /// going on.
  uint64_t paused_ns(PortId port, unsigned priority, Instant now);
  /// The priorities in which the neighbour holds `port` paused, as bits.
  uint8_t paused_by_neighbour(PortId port, Instant now) { return ports_[port].pauses.paused(now); }
  const SharedBuffer& buffer() const { return buffer_; }

 private:
  struct PortState {
    PortState(const PortConfig& port_config, const SwitchConfig& config, uint64_t seed);

    EgressScheduler egress;
    PauseClock pauses;
    RateCap cap;
    std::array<EcnMarker, kPriorities> marking;
    uint64_t bits_per_second;
    Duration refresh_interval;
    SeededRandom random;
    bool up = true;
    bool flood;
    bool send_pfc;
    bool obey_pfc;
    bool waiting = true;        // the listener is to be told when there is a frame to send
    uint8_t pause_changes = 0;  // priorities whose state the neighbour does not know yet
    uint8_t ignore_pauses = 0;  // priorities, by the watchdog
    Instant refresh_at = Instant::never();
    Instant restore_at = Instant::never();
    std::array<Instant, kPriorities> paused_since{};
    uint8_t was_paused = 0;
    MacAddress mac;
    SwitchPortCounters counters;
  };

  void drop(PortState& port, Drop why, const FabricFrame& frame);
  void on_mac_control(PortState& port, PortId id, const FabricFrame& frame, Instant now);
  void flood(PortId from, const FabricFrame& frame, const FrameFields& fields, uint8_t priority, Instant now);
  void forward(PortId from, const FabricFrame& frame, const FrameFields& fields, uint8_t priority, Instant now);
  void enqueue(PortId from, PortId to, const FabricFrame& frame, const FrameFields& fields, uint8_t priority,
               Instant now);
  FabricFrame counted(PortState& port, const FabricFrame& frame, Instant now);
  bool pause_frame_due(const PortState& port, Instant now) const {
    return port.pause_changes != 0 || now >= port.refresh_at;
  }
  FabricFrame next_pause_frame(PortState& port, PortId id, Instant now);
  uint8_t paused_groups(PortId id) const;
  uint8_t blocked(PortState& port, Instant now);
  FabricFrame dequeue(PortState& port, unsigned priority, Instant now);
  void mark(PortState& port, unsigned priority, const QueuedFrame& queued);
  void forget(const QueuedFrame& queued, Instant now);
  void account_pauses(PortState& port, Instant now);
  void run_watchdog(PortState& port, Instant now);
  void discard_queue(PortState& port, unsigned priority, Drop why, Instant now);
  void plan_wake(PortState& port, Instant now);
  void notify(PortId port, Instant now);
  void wake_by(Instant when) { wake_at_ = when < wake_at_ ? when : wake_at_; }
  uint8_t classify(const FrameFields& fields) const;

  FramePool& pool_;
  Listener* listener_;
  SwitchConfig config_;
  uint64_t hash_seed_;
  ForwardingTable forwarding_;
  SharedBuffer buffer_;
  FrameQueues queues_;
  std::vector<PortState> ports_;
  Instant wake_at_ = Instant::never();
};

}  // namespace uroce::fabric
