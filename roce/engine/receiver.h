// The incoming half of a turn: parse, find the QP, make the checks that all QPs share, verify, deliver.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/address_table.h"
#include "engine/frame_tap.h"
#include "engine/known_headers.h"
#include "engine/loopback.h"
#include "engine/management.h"
#include "engine/multicast_groups.h"
#include "engine/neighbours.h"
#include "engine/priority_flow_control.h"
#include "engine/qp_schedule.h"
#include "engine/qp_table.h"
#include "engine/steering.h"
#include "packet/packet.h"
#include "transport/counters.h"
#include "transport/qp.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

/// What is not a good packet for a QP of ours, nor for the neighbour protocol or flow control, is a counted drop.
class Receiver {
 public:
  /// Where frames come from and where they go. All outlive the receiver.
  struct Parts {
    Port& port;
    const AddressTable& addresses;
    const QpTable& qps;
    QpSchedule& schedule;
    PriorityFlowControl& pfc;
    Neighbours& neighbours;
    Loopback& loopback;
    FrameTap& tap;
    Management& management;
    MulticastGroups& multicast;
    Steering* steering = nullptr;  // nullptr: there are no flows
  };
  Receiver(const Parts& parts, Counters& counters) : parts_(parts), counters_(counters) {}

  /// Receives what the port has, up to two bursts. Returns how many frames that was.
  uint32_t receive(Instant now);
  /// Receives all that has arrived by now, before a queue pair is destroyed: a NIC would have processed it already.
  /// Bounded, since others may keep sending.
  void receive_all(Instant now);
  /// Receives what we have sent to ourselves so far; frames that these cause are left for the next turn.
  uint32_t drain_loopback(Instant now);

 private:
  void note_backlog(Instant now);
  void process(std::span<const RxFrame> frames, Instant now);
  void on_packet(const PacketView& packet, Instant now);
  void on_known(const PacketView& packet, const KnownHeaders::Known& known, Instant now);
  void deliver(Qp& qp, const PacketView& packet, Instant now);
  void update_last();
  void on_unparsed(ParseResult result, const RxFrame& frame, Instant now);
  bool steer(const RxFrame& frame, Instant now) {
    return parts_.steering != nullptr && parts_.steering->on_frame(frame, now);
  }
  void sniff(ParseResult result, const RxFrame& frame, Instant now);
  bool on_other(const RxFrame& frame, Instant now);
  Qp* find_receiver(const PacketView& packet);
  bool takes(const Qp& qp, const PacketView& packet);
  void on_multicast(const PacketView& packet, Instant now);
  void on_management(const PacketView& packet, Instant now);
  void on_marked(Qp& qp, Instant now);
  bool addressed_to_us(const PacketView& packet) const {
    return parts_.addresses.is_own(packet.dst_ip, packet.vlan_id);
  }

  static constexpr uint32_t kReceiveBurst = 32;
  // Packets whose QPs are fetched into the cache before the first is looked at.
  static constexpr size_t kParseAhead = 8;

  const Parts parts_;
  Counters& counters_;
  uint32_t full_receives_ = 0;  // consecutive turns that received as much as they may
  // Filled by the port, and by `process`. Not made anew in each turn: clearing them takes longer than everything else
  // in a turn without frames.
  std::array<RxFrame, kReceiveBurst> frames_;
  std::array<PacketView, kParseAhead> packets_;
  KnownHeaders headers_;
  bool noted_ = false;  // headers are known that were not when the frames at hand were looked at
  Qp* last_ = nullptr;  // got the last packet; the schedule is told when another one gets the next
};

}  // namespace uroce
