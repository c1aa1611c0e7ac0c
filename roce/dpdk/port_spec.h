// What a user means by `--port`, read without DPDK: the launcher checks it before the program starts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/address.h"

namespace uroce {

enum class PortKind : uint8_t {
  kWire,     // "", "memif", "memif:NAME": shared memory, by place
  kSwitch,   // "switch", "switch:NAME": a port of uroce-switch
  kVirtual,  // "net_af_packet0,iface=eth0": a DPDK vdev and its arguments
  kPci,      // "0000:03:00.0" or "03:00.0", arguments after a comma
};

struct PortSpec {
  PortKind kind = PortKind::kWire;
  std::string device;  // "net_af_packet0", "0000:03:00.0"
  std::string args;    // after the device's comma
  std::string driver;  // "net_af_packet"; "" for PCI
  std::string wire;    // name of a shared memory wire, or of a switch
  std::string netdev;  // kernel interface below the port, or ""

  /// The value of `key=` in `args`.
  std::optional<std::string> arg(std::string_view key) const;
};

/// What is special about a driver of virtual ports.
struct VirtualDriver {
  const char* name;        // a device name is this with a number behind
  const char* netdev_arg;  // the argument that names a kernel interface, or nullptr
  bool shares_netdev;      // the interface exists already, with addresses of its own
  bool needs_root;         // CAP_NET_RAW or CAP_NET_ADMIN
  const char* example;
};
std::span<const VirtualDriver> virtual_drivers();
const VirtualDriver* find_virtual_driver(std::string_view device);

/// What a switch is called that nobody gave a name.
inline constexpr const char* kDefaultSwitchName = "lab";

/// Nothing and one clear line in `error` when the text is not a port.
std::optional<PortSpec> parse_port_spec(const std::string& text, std::string& error);

}  // namespace uroce
