// Opens an endpoint's NIC as a user asked for it, keeps it, and closes it.
//
// It also takes care of what belongs to the NIC alone: the end on a wire, the addresses of the kernel's interface,
// the lcore id of its queues, and the interrupt thread, which is kept away from it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dpdk/clock.h"
#include "dpdk/endpoint.h"
#include "dpdk/engine_mutex.h"
#include "dpdk/lcore_lease.h"
#include "dpdk/nic.h"
#include "engine/priority_flow_control.h"
#include "host/netdev.h"
#include "host/pci_hold.h"
#include "host/port_plan.h"

namespace uroce {

class NicKeeper {
 public:
  /// `ownership` is taken while the NIC is opened and closed, and has the lcore id in between.
  NicKeeper(const EndpointConfig& config, EngineMutex& ownership) : config_(config), ownership_(ownership) {}

  /// To be called before EAL is started: decides what to open, and takes a wire's end and the addresses. Returns false,
  /// with one line in `error`, when that fails.
  bool plan(std::string& error);
  /// Starts EAL, unless it runs or is not needed, and the NIC. To be called by a thread that EAL may make its main
  /// lcore and that owns no engine. Returns false, with one line in `error`, when that fails; then `close` undoes what
  /// was done so far.
  bool open(std::string& error);
  /// Puts the faults that the user asked for, if any, in front of the open NIC. `clock` runs, and outlives the port.
  void impair(const TscClock& clock);
  /// Closes the NIC. EAL goes on, because it cannot be started twice, and the next endpoint uses it.
  void close();
  /// To be called in the child of a fork, where all belongs to the parent: closes descriptors that would make the
  /// parent seem alive.
  void leave();
  /// To be called there instead of `close`.
  void abandon();
  /// To be called there, too: leaves what the endpoints of a process share.
  static void leave_ports();

  const PortPlan& plan() const { return plan_; }
  bool is_open() const { return nic_ != nullptr; }
  Nic& nic() const { return *nic_; }
  /// READs and WRITEs without frames; nullptr: there are none. Belongs to the NIC.
  DirectCopy* direct() const { return direct_; }
  const std::string& netdev_name() const { return netdev_name_; }  // kernel interface below it, or ""
  bool link_up() const { return link_is_up(plan_, *nic_); }
  uint64_t link_speed_mbps() const;

  /// To be called once per turn: drives the NIC, and tells the engine when the speed of the link changed.
  void on_turn(Engine& engine, Instant now) {
    if (engine.flow_control().enabled()) nic_->obey_pauses(engine.flow_control().paused());
    if (nic_->on_turn(now)) follow_link(engine);
  }
  /// Reads the MTU of the kernel's interface, or of a segment's uplink, and tells the engine. Frames do not get longer
  /// than when the port was opened. To be called by the owner, like the next one.
  void look_at_mtu(Engine& engine);
  /// Tells the engine of changes of the link: its speed and its MTU.
  void follow_link(Engine& engine);
  /// The user named the addresses, so they do not change.
  bool addresses_are_given() const { return !config_.addresses.empty(); }
  /// If the addresses of the kernel's interface changed, logs that and returns those that the engine is to use from now
  /// on. `again`: something could not be asked or had, so that another look is worth while even without a change; in
  /// and out: the last call's value, and the new one.
  std::optional<std::vector<LocalAddress>> changed_addresses(bool& again);

 private:
  bool share_netdev(std::string& error);
  bool open_dpdk_nic(std::string& error);
  bool find();
  bool probe(std::string& error);
  bool claim(std::string& error);
  bool share(std::string& error);

  const EndpointConfig& config_;
  EngineMutex& ownership_;
  PortPlan plan_;
  std::string netdev_name_;
  RocePortHold addresses_hold_;
  std::vector<LocalAddress> taken_;  // addresses of the interface that another RoCE stack has
  PciHold pci_hold_;
  LcoreLease lcore_lease_;
  mutable std::atomic<uint64_t> speed_seen_mbps_{0};  // of the kernel's interface, as last asked for
  uint64_t speed_told_mbps_ = UINT64_MAX;             // as the engine knows it
  uint32_t frame_told_bytes_ = 0;
  bool guarded_ = false;  // from the interrupt thread
  bool claimed_ = false;  // so that no other endpoint can open the NIC
  std::unique_ptr<Nic> nic_;
  DirectCopy* direct_ = nullptr;
};

}  // namespace uroce
