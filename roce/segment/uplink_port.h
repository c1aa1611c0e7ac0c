// What the engine of an uplink receives from and sends to: a wire that it shares with the programs of a
// segment.
//
// The uplink is a host's way out of its machine, and its engine speaks for the host on the wire: it answers ARP,
// neighbour solicitations and pings, and obeys pauses. Packets for a queue pair go to the program that has the queue
// pair, and never to the engine; news of neighbours goes to both. Connection management's requests go to the program
// that listens to their service; if none does, the engine rejects them. What programs send to destinations outside the
// segment goes to the wire.
//
// Sans-I/O: wire and segment are Ports. Used by one thread, as they are.
#pragma once

#include <array>
#include <cstdint>

#include "segment/frame_address.h"
#include "segment/segment_port.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce::segment {

struct UplinkCounters {
  uint64_t uplink_rx_packets = 0;          // from the wire to programs
  uint64_t uplink_tx_packets = 0;          // from programs to the wire
  uint64_t uplink_rx_dropped_no_room = 0;  // no frame of the pool was free, since programs did not read
  uint64_t uplink_rx_dropped_too_long = 0;
  uint64_t uplink_tx_dropped_foreign = 0;  // not from the host's MAC: the sender is no program of the host
  uint64_t uplink_tx_dropped_too_long = 0;
  uint64_t uplink_tx_held = 0;  // times that a program was made to wait, because it had sent more than its rate
};

template <typename F>
void for_each_counter(const UplinkCounters& counters, F&& f) {
  f("uplink_rx_packets", counters.uplink_rx_packets);
  f("uplink_tx_packets", counters.uplink_tx_packets);
  f("uplink_rx_dropped_no_room", counters.uplink_rx_dropped_no_room);
  f("uplink_rx_dropped_too_long", counters.uplink_rx_dropped_too_long);
  f("uplink_tx_dropped_foreign", counters.uplink_tx_dropped_foreign);
  f("uplink_tx_dropped_too_long", counters.uplink_tx_dropped_too_long);
  f("uplink_tx_held", counters.uplink_tx_held);
}

class UplinkPort final : public Port {
 public:
  /// Both outlive the port. `mac`: the host's. `rate`: what one program may send to the wire, in bits per second; 0: no
  /// limit.
  UplinkPort(Port& wire, SegmentPort& segment, const MacAddress& mac, uint64_t rate)
      : wire_(wire), segment_(segment), mac_(mac), rate_(rate) {}

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override { wire_.release_rx(frames, count); }
  uint32_t rx_backlog() override { return wire_.rx_backlog(); }
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override { return wire_.acquire_tx(frames, max); }
  void send(TxFrame* frames, uint32_t count) override { wire_.send(frames, count); }

  /// To be called once per turn: sends the programs' frames to the wire, unless the wire is paused.
  void on_turn(Instant now);
  void set_silent(bool silent) { silent_ = silent; }
  /// How many frames the last turn moved, in either direction.
  uint32_t moved() const { return moved_; }
  const UplinkCounters& counters() const { return counters_; }

 private:
  bool concerns_program(const FrameAddress& destination);
  bool concerns_group(const FrameAddress& destination);
  void to_programs(const RxFrame* frames, uint32_t count);
  bool fill(TxFrame& out, const RxFrame& in);
  void charge(Peer& peer, uint32_t bytes);
  void refill(Instant now);

  Port& wire_;
  SegmentPort& segment_;
  const MacAddress mac_;
  const uint64_t rate_;
  bool silent_ = false;
  uint32_t moved_ = 0;
  Instant now_{0};
  Instant refilled_{0};
  UplinkCounters counters_;
  std::array<RxFrame, kMaxBurst> taken_{};  // out of a burst, for programs alone
};

}  // namespace uroce::segment
