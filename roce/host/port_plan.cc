#include "host/port_plan.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "host/endpoint_options.h"
#include "host/locked_memory.h"
#include "host/port_driver.h"
#include "host/runtime_dir.h"
#include "host/segment_plan.h"
#include "host/socket_plan.h"
#include "segment/member_record.h"

namespace uroce {
namespace {

// Cards need up to three seconds to negotiate. Programs look at the port once, at the start, and give up when it is
// down.
constexpr Duration kLinkPatience = milliseconds(5000);

uint32_t round_up(uint32_t value, uint32_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// The segment that is the port of the switch has two members, the switch and the program.
bool plan_switch_port(const EndpointConfig& config, WireEndUse use, PortPlan& plan, std::string& error) {
  if (!does_without_eal(config, "switch", error)) return false;
  plan.end =
      use == WireEndUse::kTake ? take_switch_port(plan.spec.wire, error) : look_at_switch_port(plan.spec.wire, error);
  if (!plan.end) return false;
  plan.identity.mac = plan.end->mac;
  plan.identity.addresses = config.addresses;
  if (config.addresses.empty()) plan.identity.addresses = {plan.end->address};
  plan.identity.link_mbps = kSegmentMbps;
  use_mtu(plan, config.mtu == 0 ? kFullMtu : config.mtu);
  plan.name = "switch:" + plan.end->wire + ", port " + std::to_string(plan.end->number);
  plan.segment_dir = plan.end->place;
  plan.host = "port" + std::to_string(plan.end->number);
  return true;
}

bool may_administer_the_network() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "CapEff:") continue;
    uint64_t capabilities = 0;
    status >> std::hex >> capabilities;
    return (capabilities >> 12 & 1) != 0;  // CAP_NET_ADMIN
  }
  return false;
}

bool check_rights(const PortPlan& plan, std::string& error) {
  const NetdevUse netdev = port_driver(plan.spec.driver).netdev;
  if (netdev == NetdevUse::kNone || netdev == NetdevUse::kSockets) return true;
  int fd = -1;
  std::string what;
  if (netdev == NetdevUse::kMakes) {
    what = "a TAP interface";
    fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  } else {
    what = "raw packets";
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  }
  const int code = errno;
  if (fd >= 0) close(fd);
  // If the interface exists already, it may have been made for this user.
  const bool allowed = netdev != NetdevUse::kMakes || read_netdev(plan.spec.netdev) || may_administer_the_network();
  if (fd >= 0 && allowed) return true;
  error =
      "port " + plan.spec.device + " cannot have " + what + " (" + std::strerror(fd < 0 ? code : EPERM) +
      "): run as root, or give the program CAP_NET_RAW and CAP_NET_ADMIN; the default port, shmlan, needs no rights";
  return false;
}

void add_arg(PortPlan& plan, const std::string& key, uint32_t value) {
  if (!plan.spec.arg(key)) plan.spec.args += "," + key + "=" + std::to_string(value);
}

/// net_af_packet copies a frame into a packet buffer without looking at the size of the buffer, and lays out its slots
/// one after the other in blocks of memory: so slots must fit the buffers of the pool, and fill their block.
bool fit_af_packet(PortPlan& plan, std::string& error) {
  const uint32_t slot_bytes = round_up(plan.max_frame_bytes + 128, 512);
  if (!plan.spec.arg("framesz") && !plan.spec.arg("blocksz")) {
    const uint32_t slots = plan.spec.arg("framecnt") ? kSlotsMost : lockable_slots(2 * slot_bytes);  // a ring each way
    if (slots == 0) {
      error = "port " + plan.spec.device + " needs memory that stays where it is, and ulimit -l gives less than " +
              std::to_string(kSlotsLeast * 2 * slot_bytes / 1024) + " kB: raise it, or run as root";
      return false;
    }
    add_arg(plan, "framesz", slot_bytes);
    add_arg(plan, "blocksz", slot_bytes * 8);
    add_arg(plan, "framecnt", slots);
  }
  add_arg(plan, "qpairs", 1);
  const std::string frame = plan.spec.arg("framesz").value_or("2048");
  plan.options.frame_bytes = std::max(plan.options.frame_bytes, static_cast<uint32_t>(std::atoi(frame.c_str())));
  return true;
}

bool plan_shared_netdev(const EndpointConfig& config, PortPlan& plan, std::string& error) {
  const std::string& name = plan.spec.netdev;
  plan.netdev = read_netdev(name);
  if (!plan.netdev && errno != ENODEV) {
    error = "interface " + name + " cannot be asked: " + std::strerror(errno);
    return false;
  }
  if (!plan.netdev) {
    error = "there is no network interface '" + name + "': `ip link` lists what there is";
    return false;
  }
  if (!plan.netdev->up) {
    error = "interface " + name + " is down: as root, ip link set " + name + " up";
    return false;
  }
  if (!carries_roce(*plan.netdev, error)) return false;
  if (config.mtu > plan.netdev->mtu) {
    error = "--mtu " + std::to_string(config.mtu) + " is more than interface " + name + " has (" +
            std::to_string(plan.netdev->mtu) + "): ip link set " + name + " mtu " + std::to_string(config.mtu);
    return false;
  }
  plan.identity.mac = plan.netdev->mac;
  plan.identity.addresses = config.addresses.empty() ? plan.netdev->addresses : config.addresses;
  uint32_t mtu = config.mtu == 0 ? plan.netdev->mtu : config.mtu;
  const PortDriver& driver = port_driver(plan.spec.driver);
  if (driver.mtu_most != 0) mtu = std::min(mtu, driver.mtu_most);
  use_mtu(plan, mtu);
  return driver.buffers != DriverBuffers::kFrames || fit_af_packet(plan, error);
}

/// The one that the port's arguments give.
bool take_mac(PortPlan& plan, std::string& error) {
  const std::string text = plan.spec.arg("mac").value_or("");
  const auto given = parse_mac(text);
  if (given && !given->is_multicast() && !given->is_zero()) {
    plan.identity.mac = *given;
    return true;
  }
  error = "port " + plan.spec.device + ": '" + text + "' is not a MAC address, such as 02:00:00:00:00:01";
  return false;
}

bool take_addresses_of_machine(PortPlan& plan, std::string& error) {
  std::string first;
  auto all = addresses_of_machine(first);
  if (!all) {
    error = std::string("the addresses of this machine cannot be read: ") + std::strerror(errno);
    return false;
  }
  plan.netdev->addresses = *all;
  if (all->size() > segment::kAddressesMax) all->resize(segment::kAddressesMax);
  plan.identity.addresses = std::move(*all);
  return true;
}

bool plan_sockets(const EndpointConfig& config, PortPlan& plan, std::string& error) {
  EndpointConfig on_interface = config;
  on_interface.addresses.clear();
  if (!choose_socket_interface(config, plan, on_interface.addresses, error)) return false;
  plan.identity.netdev = plan.spec.netdev;
  if (!plan_shared_netdev(on_interface, plan, error)) return false;
  if (plan.of_machine && !take_addresses_of_machine(plan, error)) return false;
  if (plan.spec.arg("mac") && !take_mac(plan, error)) return false;
  if (plan.identity.addresses.empty()) {
    error = "port " + plan.spec.device + ": interface " + plan.spec.netdev + " has no address";
    return false;
  }
  if (plan.identity.mac.is_zero())
    plan.identity.mac = stable_mac(to_string(plan.identity.addresses.front().ip), 0x01);  // a tunnel's
  plan.options.mtu = plan.max_frame_bytes - kLinkHeaderBytes;
  plan.name = plan.spec.device;
  plan.devargs = plan.spec.device + "," + socket_arguments(plan);
  return true;
}

/// Plans a card model in this process whose cable is shared memory: the process that comes first has one end and the
/// address that belongs to it, the second has the other.
bool plan_card_wire(const EndpointConfig& config, WireEndUse use, PortPlan& plan, std::string& error) {
  if (!plan.spec.arg("wire")) plan.spec.args += std::string(plan.spec.args.empty() ? "" : ",") + "wire=shm:uroce";
  const std::string wire = plan.spec.arg("wire")->substr(std::strlen("shm:"));
  if (wire.empty() || !valid_wire_name("card-" + wire)) {
    error = "port " + plan.spec.device + ": wire=shm:NAME wants a name of 1 to 27 letters, digits, '-', '_' or '.'";
    return false;
  }
  const std::string name = "card-" + wire;
  const auto end = use == WireEndUse::kTake ? take_wire_end(name, error) : look_at_wire_end(name, error);
  if (!end) return false;
  plan.end = end;
  plan.identity.mac = end->mac;
  if (config.addresses.empty()) plan.identity.addresses = {end->address};
  plan.options.wire = true;
  return true;
}

bool plan_card(const EndpointConfig& config, WireEndUse use, PortPlan& plan, std::string& error) {
  plan.identity.mac = stable_mac(place_in_the_world() + plan.spec.device + plan.spec.args, 0x01);
  plan.identity.addresses = config.addresses;
  const bool is_inline = plan.spec.arg("card").value_or("inline") == "inline";
  const bool shared_memory = plan.spec.arg("wire").value_or("shm:").rfind("shm:", 0) == 0;
  if (is_inline && shared_memory && !plan_card_wire(config, use, plan, error)) return false;
  if (plan.spec.arg("mac")) {
    if (!take_mac(plan, error)) return false;
  } else {
    plan.spec.args += std::string(plan.spec.args.empty() ? "" : ",") + "mac=" + to_string(plan.identity.mac);
  }
  use_mtu(plan, config.mtu == 0 ? kFullMtu : config.mtu);
  plan.options.mtu = plan.max_frame_bytes - kLinkHeaderBytes;
  plan.name = plan.spec.device;
  plan.devargs = plan.spec.device + "," + plan.spec.args;
  return true;
}

bool plan_virtual(const EndpointConfig& config, WireEndUse use, PortPlan& plan, std::string& error) {
  const PortDriver& driver = port_driver(plan.spec.driver);
  if (driver.is_card) return plan_card(config, use, plan, error);
  if (driver.netdev == NetdevUse::kSockets) return plan_sockets(config, plan, error);
  if (!check_rights(plan, error)) return false;
  if (driver.netdev == NetdevUse::kShares && !plan.spec.netdev.empty()) {
    if (!plan_shared_netdev(config, plan, error)) return false;
  } else {
    plan.identity.mac = stable_mac(place_in_the_world() + plan.spec.device + plan.spec.args, 0x01);
    plan.identity.addresses = config.addresses;
    const uint32_t most = driver.mtu_most;
    if (most != 0 && config.mtu > most) {
      error = "--mtu " + std::to_string(config.mtu) + " is more than " + driver.name + " carries (" +
              std::to_string(most) + ")";
      return false;
    }
    use_mtu(plan, config.mtu != 0 ? config.mtu : most != 0 ? most : kFullMtu);
    plan.options.mtu = 0;
  }
  plan.options.wire = driver.is_wire;
  plan.options.connects = plan.options.wire && plan.spec.arg("role").value_or("client") == "client";
  plan.name = plan.spec.device;
  plan.devargs = plan.spec.device + (plan.spec.args.empty() ? "" : ",") + plan.spec.args;
  return true;
}

bool plan_pci(const EndpointConfig& config, PortPlan& plan, std::string& error) {
  namespace fs = std::filesystem;
  const fs::path device = "/sys/bus/pci/devices/" + plan.spec.device;
  std::error_code code;
  if (!fs::exists(device, code)) {
    error =
        "there is no PCI device " + plan.spec.device + ": `lspci -D` and `dpdk-devbind.py --status` list what there is";
    return false;
  }
  plan.identity.mac = stable_mac(place_in_the_world() + plan.spec.device, 0x01);
  for (const std::string& name : names_in(device / "net")) {
    std::string text;
    std::ifstream(device / "net" / name / "address") >> text;
    if (const auto mac = parse_mac(text)) plan.identity.mac = *mac;
  }
  plan.identity.addresses = config.addresses;
  plan.options.link_patience = kLinkPatience;
  plan.name = plan.spec.device;
  plan.devargs = plan.spec.device + (plan.spec.args.empty() ? "" : ",") + plan.spec.args;
  use_mtu(plan, config.mtu == 0 ? kFullMtu : config.mtu);
  plan.options.mtu = plan.max_frame_bytes - kLinkHeaderBytes;
  return true;
}

}  // namespace

bool carries_roce(const Netdev& netdev, std::string& error) {
  if (netdev.mtu >= kMtuMin) return true;
  error = "interface " + netdev.name + " has an MTU of " + std::to_string(netdev.mtu) +
          ", too little for RoCE: ip link set " + netdev.name + " mtu " + std::to_string(kMtuMin) + " or more";
  return false;
}

uint32_t queue_pairs_of(const EndpointConfig& config, const PortPlan& plan, uint32_t otherwise) {
  const uint32_t wanted = config.max_qps == 0 ? otherwise : config.max_qps;
  return plan.qps_max == 0 ? wanted : std::min(wanted, plan.qps_max);
}

void use_mtu(PortPlan& plan, uint32_t mtu) {
  plan.max_frame_bytes = std::min(mtu, kFullMtu) + kLinkHeaderBytes;
  plan.options.frame_bytes = plan.max_frame_bytes;
}

uint64_t pause_speed(const PortPlan& plan, uint64_t link_speed) {
  return port_driver(plan.spec.driver).is_memory ? kWirePauseSpeed : link_speed;
}

bool plan_port(const EndpointConfig& config, WireEndUse use, PortPlan& plan, std::string& error) {
  if (config.addresses.size() > segment::kAddressesMax) {
    error = std::to_string(config.addresses.size()) + " addresses: a GID table has room for " +
            std::to_string(segment::kAddressesMax) + "; give fewer with --addr";
    return false;
  }
  auto spec = parse_port_spec(config.port, error);
  if (!spec) return false;
  plan.spec = *spec;
  // An interface that TAP makes, or one that exists and is shared.
  if (port_driver(spec->driver).netdev != NetdevUse::kNone) plan.identity.netdev = spec->netdev;
  switch (plan.spec.kind) {
    case PortKind::kSwitch:
      return plan_switch_port(config, use, plan, error);
    case PortKind::kSegment:
      return plan_segment(config, plan, error);
    case PortKind::kVirtual:
      return plan_virtual(config, use, plan, error);
    case PortKind::kPci:
      return plan_pci(config, plan, error);
  }
  return false;
}

}  // namespace uroce
