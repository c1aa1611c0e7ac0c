// What an endpoint sends and receives through: a DPDK port, or a place on a segment of shared memory.
//
// The engine sees the NIC's `Port`; the rest is for the endpoint, which looks after it. Everything is called by the
// owner of the engine, except where noted.
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

/// Whose addresses an endpoint has, and how much goes that way.
class AddressSource {
 public:
  virtual ~AddressSource() = default;
  /// Which ones now that the machine has these; empty: it is not known. To be called by the owner of the engine.
  virtual std::vector<LocalAddress> choose(const std::vector<LocalAddress>& of_machine) = 0;
  /// True once after something beside the machine's interfaces changed on which they depend. Any thread may ask.
  virtual bool take_news() = 0;
  /// The IP MTU of the way out of the machine, as last heard; 0: it is not known. To be called by the owner.
  virtual uint32_t mtu() = 0;
};

class Nic {
 public:
  virtual ~Nic() = default;

  virtual Port& port() = 0;
  /// Where the engine gets its queue pair numbers; nullptr: they are all its own.
  virtual QpnBlocks* qpn_blocks() { return nullptr; }
  /// Makes the NIC obey and send pause frames for these priorities (bits). False when it cannot, so that software
  /// has to.
  virtual bool pause_in_hardware(uint8_t /*priorities*/) { return false; }

  /// The priorities that the neighbour wants to be silent, as bits, where software has to see to it. What the engine
  /// does not send itself stays in the NIC meanwhile.
  virtual void obey_pauses(uint8_t /*paused*/) {}
  /// To be called once per turn. True when it looked at the link.
  virtual bool on_turn(Instant now) = 0;
  /// How many frames the NIC has passed on in this turn, past the engine.
  virtual uint32_t moved() const { return 0; }
  /// What the endpoint's addresses follow, if they are not those of a kernel interface below the port; nullptr:
  /// nothing.
  virtual AddressSource* address_source() { return nullptr; }
  /// The endpoint has other addresses from now on.
  virtual void tell_addresses(const std::vector<LocalAddress>& /*addresses*/) {}
  // Services of connection management, which all programs of a host share. A port that no other program has needs none
  // of this.
  /// Returns an errno when it cannot be had; EADDRINUSE: another program has it.
  virtual int claim_service(uint64_t /*service_id*/) { return 0; }
  virtual void release_service(uint64_t /*service_id*/) {}
  /// Tells the other programs where requests for these services belong. `listen` returns an errno when they cannot be
  /// told.
  virtual int listen(uint64_t /*service_id*/, uint64_t /*mask*/) { return 0; }
  virtual void unlisten(uint64_t /*service_id*/, uint64_t /*mask*/) {}
  virtual bool another_listens(uint64_t /*service_id*/) { return false; }
  /// Whom to tell of multicast groups; nullptr: the NIC passes on all.
  virtual MulticastFilter* multicast_filter() { return nullptr; }
  /// Whom to tell of raw packets that are wanted; nullptr: the NIC passes on all.
  virtual RawFilter* raw_filter() { return nullptr; }
  /// Who hears, from within `on_turn`, of other programs on the NIC that are gone. A NIC that cannot know of them
  /// tells nothing.
  virtual void on_lost(const segment::LossListener& /*listener*/) {}
  /// Frames wait in the NIC.
  virtual bool tx_pending() const = 0;
  /// What was sent lies in memory of this process, and who is to read it has not done so.
  virtual bool unread() const { return false; }
  /// When the NIC has something to do even if no frame arrives; Instant::never() if it has not. `on_turn` does it.
  virtual Instant next_timeout() const { return Instant::never(); }

  // Any thread may ask these.
  virtual bool link_up() const = 0;
  virtual uint32_t link_speed_mbps() const = 0;
  using Counter = std::function<void(const char* name, uint64_t value)>;
  virtual void for_each_counter(const Counter& f) const = 0;

  /// What wakes a thread that sleeps; nullptr: nothing, so whoever waits has to look now and then.
  virtual WakeSource* wake_source() { return nullptr; }

  /// In the child of a fork: closes the descriptors that would keep the parent's death from being seen. Nothing of the
  /// NIC may be used any more, or destroyed.
  virtual void abandon() = 0;
};

/// The link of an open port, as programs see it: that of the kernel interface below it, if there is one. A wire of
/// shared memory counts as up also while nobody is at its other end, because programs refuse a port that is down.
bool link_is_up(const PortPlan& plan, const Nic& nic);

/// Configures and starts a port that DPDK has. Returns nullptr, with one line in `error`, when that fails. `rest`: how
/// to wait for its link.
std::unique_ptr<Nic> start_dpdk_nic(const PortOptions& options, std::string& error,
                                    const std::function<void(Duration)>& rest);
/// Joins a segment. Returns nullptr, with one line in `error`, when that fails. Needs no EAL. `direct`: the NIC's
/// READs and WRITEs without frames; nullptr: there are none.
std::unique_ptr<Nic> join_segment(const PortPlan& plan, DirectCopy*& direct, std::string& error);

}  // namespace uroce
