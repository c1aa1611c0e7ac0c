// What an endpoint sends and receives through: a DPDK port, or a place on a segment of shared memory.
//
// The engine sees the NIC's `Port`; the rest is for the endpoint. All functions are called by the owner of the engine,
// except where noted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/direct_copy.h"
#include "dpdk/dpdk_port.h"
#include "dpdk/wake_source.h"
#include "engine/group_membership.h"
#include "engine/port_filters.h"
#include "engine/qpn_blocks.h"
#include "engine/steering.h"
#include "host/port_plan.h"
#include "segment/lost_member.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

/// The source of an endpoint's addresses, and the MTU on that way.
class AddressSource {
 public:
  virtual ~AddressSource() = default;
  /// The addresses to use now that the machine has these; empty when they are not known. To be called by the owner of
  /// the engine.
  virtual std::vector<LocalAddress> choose(const std::vector<LocalAddress>& of_machine) = 0;
  /// True once after a change that affects them, other than of the machine's interfaces. Any thread may ask.
  virtual bool take_news() = 0;
  /// The IP MTU of the host's uplink, as last heard; 0 when it is not known. To be called by the owner.
  virtual uint32_t mtu() = 0;
};

class Nic {
 public:
  virtual ~Nic() = default;

  virtual Port& port() = 0;
  /// Where the engine gets its queue pair numbers; nullptr: it may use any.
  virtual QpnBlocks* qpn_blocks() { return nullptr; }
  /// Makes the NIC obey and send pause frames for these priorities (bits). False when it cannot, so that software
  /// has to.
  virtual bool pause_in_hardware(uint8_t /*priorities*/) { return false; }

  /// The priorities that the neighbour has paused, as bits, when pauses are obeyed in software. Frames of these
  /// priorities that the NIC sends by itself stay in it meanwhile.
  virtual void obey_pauses(uint8_t /*paused*/) {}
  /// To be called once per turn. True when it checked the link.
  virtual bool on_turn(Instant now) = 0;
  /// The number of frames that the NIC has forwarded in this turn without the engine.
  virtual uint32_t moved() const { return 0; }
  /// Where the endpoint's addresses come from, unless from a kernel interface below the port; nullptr: they do not
  /// change.
  virtual AddressSource* address_source() { return nullptr; }
  /// The endpoint has these addresses from now on.
  virtual void tell_addresses(const std::vector<LocalAddress>& /*addresses*/) {}
  // Services of connection management, which all programs of a host share. A port without other programs needs none of
  // this.
  /// Returns an errno when it cannot be claimed; EADDRINUSE: another program has it.
  virtual int claim_service(uint64_t /*service_id*/) { return 0; }
  virtual void release_service(uint64_t /*service_id*/) {}
  /// Tells the other programs that requests for these services belong here. `listen` returns an errno when that fails.
  virtual int listen(uint64_t /*service_id*/, uint64_t /*mask*/) { return 0; }
  virtual void unlisten(uint64_t /*service_id*/, uint64_t /*mask*/) {}
  virtual bool another_listens(uint64_t /*service_id*/) { return false; }
  /// To be told of multicast groups; nullptr: the NIC passes on all frames.
  virtual MulticastFilter* multicast_filter() { return nullptr; }
  /// To be told which raw packets are wanted; nullptr: the NIC passes on all.
  virtual RawFilter* raw_filter() { return nullptr; }
  /// Sets a listener that `on_turn` tells of other programs on the NIC that are gone. A NIC that cannot know of them
  /// tells nothing.
  virtual void on_lost(const segment::LossListener& /*listener*/) {}
  /// Frames wait in the NIC.
  virtual bool tx_pending() const = 0;
  /// Sent frames are in memory of this process, and their receiver has not read them.
  virtual bool unread() const { return false; }
  /// When the NIC has something to do even if no frame arrives, or Instant::never(). `on_turn` does it.
  virtual Instant next_timeout() const { return Instant::never(); }

  // Any thread may ask these.
  virtual bool link_up() const = 0;
  virtual uint32_t link_speed_mbps() const = 0;
  using Counter = std::function<void(const char* name, uint64_t value)>;
  virtual void for_each_counter(const Counter& f) const = 0;

  /// What wakes a sleeping thread; nullptr: nothing does, so a thread that waits has to look now and then.
  virtual WakeSource* wake_source() { return nullptr; }

  /// In the child of a fork: closes the descriptors that would hide the parent's death. The NIC must not be used or
  /// destroyed afterwards.
  virtual void abandon() = 0;
};

/// The link of an open port, as programs see it: that of the kernel interface below it, if there is one. A wire of
/// shared memory counts as up even without a peer, because programs refuse a port that is down.
bool link_is_up(const PortPlan& plan, const Nic& nic);

/// Configures and starts a DPDK port that exists. Returns nullptr, with one line in `error`, when that fails. `rest`:
/// how to wait for its link.
std::unique_ptr<Nic> start_dpdk_nic(const PortOptions& options, std::string& error,
                                    const std::function<void(Duration)>& rest);
/// Joins a segment. Returns nullptr, with one line in `error`, when that fails. Needs no EAL. `direct`: the NIC's
/// READs and WRITEs without frames; nullptr: there are none.
std::unique_ptr<Nic> join_segment(const PortPlan& plan, DirectCopy*& direct, std::string& error);

}  // namespace uroce
