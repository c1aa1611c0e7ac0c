#include "host/port_driver.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace uroce {
namespace {

constexpr PortDriver kOrdinary;

constexpr PortDriver kDrivers[] = {
    {.name = "net_mqnic", .example = "net_mqnic0,card=inline,wire=shm:NAME", .is_card = true},
    {.name = "net_memif",
     .example = "net_memif0,role=client,socket=/run/x.sock,socket-abstract=no",
     .ring = 512,
     .is_wire = true,
     .is_memory = true},
    {.name = "net_af_packet",
     .example = "net_af_packet0,iface=eth0",
     .ring = 512,
     .netdev = NetdevUse::kShares,
     .buffers = DriverBuffers::kFrames,
     .names_netdev = true,
     .hears_others = true},
    {.name = "net_af_xdp",
     .example = "net_af_xdp0,iface=eth0",
     .needs = "net_af_xdp needs root, or CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON, and to "
              "lock all memory of its packets CAP_IPC_LOCK or a higher ulimit -l; net_af_packet does with CAP_NET_RAW",
     .mtu_most = 3400,  // frame and headers in one page
     .ring = 2048,
     .netdev = NetdevUse::kShares,
     .buffers = DriverBuffers::kShared,
     .names_netdev = true},
    {.name = "net_tap",
     .example = "net_tap0,iface=dtap0",
     .mtu_most = 1500,  // DPDK 22.11 states a longest frame of 1522 bytes for it
     .netdev = NetdevUse::kMakes},
    {.name = "net_udp", .example = "net_udp0,addr=10.0.0.1/24", .netdev = NetdevUse::kSockets, .wakes = true},
    {.name = "net_pcap", .example = "net_pcap0,iface=eth0", .netdev = NetdevUse::kShares},
    {.name = "net_ring", .example = "net_ring0"},
    {.name = "net_null", .example = "net_null0"},
    {.name = "net_virtio_user", .example = "net_virtio_user0,path=/run/vhost.sock", .names_vlans = true},
    {.name = "net_vhost", .example = "net_vhost0,iface=/run/vhost.sock"},
    {.name = "net_shmlan", .ring = 512, .is_memory = true},
    {.name = "net_virtio", .names_vlans = true},
};

}  // namespace

const PortDriver& port_driver(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kDrivers), std::end(kDrivers),
                                         [name](const PortDriver& driver) { return name == driver.name; });
  return found == std::end(kDrivers) ? kOrdinary : *found;
}

const PortDriver* driver_of_device(std::string_view device) {
  for (const PortDriver& driver : kDrivers) {
    const std::string_view name = driver.name;
    if (driver.example[0] == 0 || device.substr(0, name.size()) != name) continue;
    const std::string_view number = device.substr(name.size());
    const bool numbered = std::all_of(number.begin(), number.end(), [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '_';
    });
    if (numbered) return &driver;
  }
  return nullptr;
}

std::string port_driver_names() {
  std::string names;
  for (const PortDriver& driver : kDrivers) {
    if (driver.example[0] != 0) names += std::string(names.empty() ? "" : ", ") + driver.name;
  }
  return names;
}

}  // namespace uroce
