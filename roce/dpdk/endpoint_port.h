// The port of an endpoint: from what a user asked for to an open device, and back.
//
// Around the device stands what belongs to it alone: its end of a wire, the kernel's addresses below it, the lcore id
// of its queues, and the interrupt thread, which is kept away from it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dpdk/dpdk_port.h"
#include "dpdk/endpoint.h"
#include "dpdk/lcore_lease.h"
#include "dpdk/ownership.h"
#include "host/netdev.h"
#include "host/port_plan.h"

namespace uroce {

class EndpointPort {
 public:
  /// `ownership` is taken while the device is opened and closed, and carries the lcore id in between.
  EndpointPort(const EndpointConfig& config, Ownership& ownership) : config_(config), ownership_(ownership) {}

  /// Before EAL is started: decides what will be opened, and takes the end of the wire and the addresses. False and one
  /// line in `error`.
  bool plan(std::string& error);
  /// Starts EAL, if nobody has, and the device: in the thread that EAL may make its own, which owns no engine. False
  /// and one line in `error`; `close` puts back what was done until then.
  bool open(std::string& error);
  /// EAL goes on: it cannot be started twice, and the next endpoint finds it there.
  void close();
  /// In the child of a fork: everything is the parent's.
  void abandon();

  const PortPlan& plan() const { return plan_; }
  bool is_open() const { return device_ != nullptr; }
  DpdkPort& device() { return *device_; }
  const DpdkPort& device() const { return *device_; }
  const std::string& netdev_name() const { return netdev_name_; }  // kernel interface below it, or ""
  bool link_up() const;
  uint64_t link_speed_mbps() const;

  /// Once a turn: looks after the device, and tells the engine when the link has another speed.
  void on_turn(Engine& engine, Instant now) {
    if (device_->on_turn(now)) follow_link_speed(engine);
  }
  /// What the engine shall use from now on, when the kernel's interface has other addresses than it had; says so.
  std::optional<std::vector<LocalAddress>> changed_addresses();

 private:
  bool share_netdev(std::string& error);
  bool find();
  bool probe(std::string& error);
  bool claim(std::string& error);
  void follow_link_speed(Engine& engine);

  const EndpointConfig& config_;
  Ownership& ownership_;
  PortPlan plan_;
  std::string netdev_name_;
  RocePortHold addresses_hold_;
  LcoreLease lcore_lease_;
  uint64_t speed_told_mbps_ = UINT64_MAX;  // to the engine
  bool guarded_ = false;                   // from the interrupt thread
  bool claimed_ = false;                   // no other endpoint can open the device
  std::unique_ptr<DpdkPort> device_;
};

}  // namespace uroce
