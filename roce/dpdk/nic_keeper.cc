#include "dpdk/nic_keeper.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <set>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "base/immortal.h"
#include "dpdk/driver_libraries.h"
#include "dpdk/eal.h"
#include "dpdk/existing_port.h"
#include "dpdk/faulty_nic.h"
#include "dpdk/interrupt_guard.h"
#include "dpdk/log.h"
#include "dpdk/port_mtu.h"
#include "dpdk/uplink_nic.h"
#include "engine/priority_flow_control.h"
#include "host/descriptors.h"
#include "host/endpoint_options.h"
#include "host/port_driver.h"
#include "host/segment_plan.h"
#include "host/wire_end.h"

namespace uroce {
namespace {

/// Ports are opened and closed one at a time, because EAL's list of devices, and what a driver shares between its
/// ports, are not thread-safe. The mutex comes before every lock of an engine, and protects the list of ports that
/// endpoints have open.
struct OpenPorts {
  std::mutex mutex;
  std::set<uint16_t> ids;
};

OpenPorts& open_ports() {
  static Immortal<OpenPorts> ports;  // an endpoint may be closed while the process exits
  return *ports;
}

std::string pci_advice(const std::string& device) {
  std::error_code code;
  const auto driver = std::filesystem::read_symlink("/sys/bus/pci/devices/" + device + "/driver", code).filename();
  if (driver == "uio_pci_generic" && rte_eal_has_hugepages() == 0) {
    return "; without an IOMMU it needs hugepages: as root, echo 64 > /proc/sys/vm/nr_hugepages";
  }
  if (driver == "uio_pci_generic" || driver == "vfio-pci") return "";
  return "; it has to be bound to vfio-pci: dpdk-devbind.py -b vfio-pci " + device;
}

/// Needed beside the kernel, which otherwise would answer for the port's addresses. Not for sockets, which are the
/// kernel's.
bool needs_hold(const PortPlan& plan) {
  return plan.netdev && port_driver(plan.spec.driver).netdev != NetdevUse::kSockets;
}

/// The interface below the port, with the addresses that the port follows. Nothing, when errno says why they are not
/// known.
std::optional<Netdev> netdev_now(const PortPlan& plan) {
  if (!plan.of_machine) return read_netdev(plan.netdev->name);
  std::string first;
  auto all = addresses_of_machine(first);
  if (!all) return std::nullopt;
  // Also when the first interface is gone: the others have theirs.
  Netdev netdev = *plan.netdev;
  netdev.addresses = std::move(*all);
  return netdev;
}

}  // namespace

void NicKeeper::leave_ports() { new (&open_ports()) OpenPorts; }

bool NicKeeper::plan(std::string& error) {
  if (config_.eal_running) return plan_existing_port(config_, plan_, error);
  {
    // Two endpoints that are opened at the same time must get different ends.
    const std::lock_guard opening(open_ports().mutex);
    if (!plan_port(config_, WireEndUse::kTake, plan_, error)) {
      plan_.end.reset();  // by the time of `close` it may belong to another
      return false;
    }
    if (plan_.end) occupy_wire_end(*plan_.end);
  }
  if (plan_.spec.kind == PortKind::kPci && !pci_hold_.take(plan_.spec.device, error)) return false;
  return !needs_hold(plan_) || share_netdev(error);
}

bool NicKeeper::share_netdev(std::string& error) {
  std::vector<LocalAddress> foreign;
  for (const LocalAddress& address : plan_.identity.addresses) {
    if (address.vlan_id == 0 && !addresses_hold_.take(address, *plan_.netdev, error)) return false;
    const auto& own = plan_.netdev->addresses;
    if (std::find_if(own.begin(), own.end(), [&](const LocalAddress& a) { return a.ip == address.ip; }) == own.end()) {
      foreign.push_back(address);
    }
  }
  const auto conflict = find_address_conflict(*plan_.netdev, foreign);
  if (!conflict) return true;
  error = "address already in use: " + to_string(conflict->first) + " belongs to " + to_string(conflict->second) +
          " on the network of " + plan_.netdev->name + "; choose another with --addr";
  return false;
}

bool NicKeeper::open(std::string& error) {
  const std::lock_guard opening(open_ports().mutex);
  if (!plan_.segment_dir.empty()) {
    if (!start_without_eal(error)) return false;
    nic_ = join_segment(plan_, direct_, error);
  } else if (!open_dpdk_nic(error)) {
    return false;
  }
  if (nic_) netdev_name_ = plan_.identity.netdev;
  return nic_ != nullptr;
}

bool NicKeeper::open_dpdk_nic(std::string& error) {
  const unsigned own = config_.eal_running ? rte_lcore_id() : LCORE_ID_ANY;
  const EalOptions options{config_.eal_args, plan_.spec.kind == PortKind::kPci ? plan_.devargs : "", config_.hugepages};
  if (!config_.eal_running && !start_eal(options, error)) return false;
  if (!lcore_lease_.take(own != LCORE_ID_ANY ? own : rte_get_main_lcore(), error)) return false;
  ownership_.set_lcore(lcore_lease_.id());
  guard_interrupt_thread(ownership_);
  guarded_ = true;
  ownership_.acquire();
  for (const LocalAddress& address : plan_.identity.addresses) {
    if (address.vlan_id != 0) plan_.options.vlans.push_back(address.vlan_id);
  }
  // Some cards report their link in an interrupt, whose thread waits for the engine's owner.
  const auto rest = [this](Duration time) {
    ownership_.release();
    rte_delay_us_sleep(static_cast<unsigned>(time.ns / 1000));
    ownership_.acquire();
  };
  const bool good = (config_.eal_running || probe(error)) && claim(error) &&
                    (nic_ = start_dpdk_nic(plan_.options, error, rest)) && share(error);
  ownership_.release();
  return good;
}

/// Puts the NIC on a segment, if it is an uplink.
bool NicKeeper::share(std::string& error) {
  if (config_.uplink) nic_ = make_uplink(std::move(nic_), plan_, *config_.uplink, error);
  return nic_ != nullptr;
}

void NicKeeper::impair(const TscClock& clock) {
  if (config_.faults.empty()) return;
  direct_ = nullptr;
  nic_ = impair_nic(std::move(nic_), config_.faults, plan_.max_frame_bytes, clock);
}

/// Called with the mutex of open ports, like `close`.
bool NicKeeper::claim(std::string& error) {
  claimed_ = open_ports().ids.insert(plan_.options.port_id).second;
  if (!claimed_) error = "port " + plan_.name + " is open already, for another endpoint of this process";
  return claimed_;
}

bool NicKeeper::find() { return rte_eth_dev_get_port_by_name(plan_.spec.device.c_str(), &plan_.options.port_id) == 0; }

bool NicKeeper::probe(std::string& error) {
  if (uroce_load_driver_libraries != nullptr && !uroce_load_driver_libraries(plan_.spec.driver.c_str(), error))
    return false;
  const QuietDpdk quiet;
  // EAL probes a PCI device when it starts; when the device is opened again, it has to be probed here.
  if (!find() && (rte_dev_probe(plan_.devargs.c_str()) != 0 || !find())) {
    error = "DPDK cannot open port " + plan_.name;
    if (const std::string last = quiet.first_error(); !last.empty()) error += " (" + last + ")";
    const PortDriver* const driver = driver_of_device(plan_.spec.device);
    if (driver != nullptr && driver->netdev != NetdevUse::kSockets) {
      error += std::string("; are its arguments right? For example ") + driver->example;
    }
    if (plan_.spec.kind == PortKind::kPci) error += pci_advice(plan_.spec.device);
    return false;
  }
  rte_ether_addr mac{};
  if (plan_.spec.kind == PortKind::kPci && rte_eth_macaddr_get(plan_.options.port_id, &mac) == 0) {
    plan_.identity.planned_mac = plan_.identity.mac;
    std::memcpy(plan_.identity.mac.bytes.data(), mac.addr_bytes, 6);
  }
  return plan_.spec.kind != PortKind::kPci || fit_mtu(config_, plan_, error);
}

void NicKeeper::close() {
  const std::lock_guard opening(open_ports().mutex);
  if (nic_) {
    ownership_.acquire();
    nic_.reset();
    ownership_.release();
  }
  if (claimed_) open_ports().ids.erase(plan_.options.port_id);
  if (guarded_) unguard_interrupt_thread(ownership_);
  lcore_lease_.give_back();
  pci_hold_.release();
  if (plan_.end) vacate_wire_end(*plan_.end);
}

void NicKeeper::leave() {
  if (nic_) nic_->abandon();
  pci_hold_.release();  // this process's descriptor only: the parent keeps its own
}

void NicKeeper::abandon() {
  static_cast<void>(nic_.release());
  lcore_lease_.abandon();
}

/// The kernel is asked each time, since it does not report changes.
uint64_t NicKeeper::link_speed_mbps() const {
  const uint64_t now = plan_.netdev ? netdev_speed_mbps(plan_.netdev->name) : 0;
  if (now != 0) speed_seen_mbps_.store(now, std::memory_order_relaxed);
  const uint64_t seen = speed_seen_mbps_.load(std::memory_order_relaxed);
  return seen != 0 ? seen : nic_->link_speed_mbps();
}

/// Also called in turns, so it uses the interface's speed as last asked for.
void NicKeeper::follow_link(Engine& engine) {
  const uint64_t seen = speed_seen_mbps_.load(std::memory_order_relaxed);
  const uint64_t mbps = seen != 0 ? seen : nic_->link_speed_mbps();
  const uint32_t bytes = plan_.mtu_now != 0 ? plan_.mtu_now + kLinkHeaderBytes : plan_.max_frame_bytes;
  if (mbps == speed_told_mbps_ && bytes == frame_told_bytes_) return;
  speed_told_mbps_ = mbps;
  frame_told_bytes_ = bytes;
  engine.set_link(mbps * kMegabit, bytes);
  engine.flow_control().set_link_speed(pause_speed(plan_, mbps * kMegabit));
}

void NicKeeper::look_at_mtu(Engine& engine) {
  const auto netdev = plan_.netdev ? read_netdev(plan_.netdev->name) : std::nullopt;
  if (plan_.spec.kind == PortKind::kSegment) plan_.mtu_now = nic_->address_source()->mtu();
  if (netdev && netdev->mtu != plan_.netdev->mtu) {
    const uint32_t before = std::exchange(plan_.netdev->mtu, netdev->mtu);
    const uint32_t ours = plan_.max_frame_bytes - kLinkHeaderBytes;
    plan_.mtu_now = std::clamp(netdev->mtu, kMtuMin, ours);
    if (netdev->mtu < ours)
      log_message(LogLevel::kWarning,
                  "interface %s has an MTU of %u now, and had %u: connections that were made with a longer path MTU "
                  "lose packets; as root, ip link set %s mtu %u",
                  netdev->name.c_str(), netdev->mtu, before, netdev->name.c_str(), ours);
  }
  follow_link(engine);
}

std::optional<std::vector<LocalAddress>> NicKeeper::changed_addresses(bool& again) {
  // Addresses that were configured for the program do not follow those of the interface.
  if (!plan_.netdev || !config_.addresses.empty() || plan_.spec.arg("addr")) return std::nullopt;
  const auto netdev = netdev_now(plan_);
  const bool once_more = std::exchange(again, !netdev && could_not_ask(errno));
  if (!netdev || netdev->addresses == plan_.netdev->addresses) return std::nullopt;
  std::vector<LocalAddress> usable;
  std::vector<LocalAddress> seen = netdev->addresses;
  for (const LocalAddress& address : netdev->addresses) {
    const auto& known = plan_.netdev->addresses;
    std::string error;
    const bool was_taken = std::erase(taken_, address) != 0;
    const bool is_new = was_taken || std::find(known.begin(), known.end(), address) == known.end();
    if (is_new && needs_hold(plan_) && !addresses_hold_.take(address, *netdev, error)) {
      const bool later = could_not_ask(errno);
      if (later) std::erase(seen, address);
      if (!later) taken_.push_back(address);
      again |= later;
      const bool is_said = later ? once_more : was_taken;
      if (!is_said) log_message(LogLevel::kWarning, "%s", error.c_str());
      continue;
    }
    if (is_new) log_message(LogLevel::kInfo, "address %s is new", to_string(address).c_str());
    usable.push_back(address);
  }
  for (const LocalAddress& address : plan_.netdev->addresses) {
    const auto& left = netdev->addresses;
    if (std::find(left.begin(), left.end(), address) != left.end()) continue;
    log_message(LogLevel::kWarning, "address %s is gone: its connections will fail", to_string(address).c_str());
    addresses_hold_.release(address);
    std::erase(taken_, address);
  }
  plan_.netdev->addresses = std::move(seen);
  return usable;
}

}  // namespace uroce
