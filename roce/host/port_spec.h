// Reads what a user means by `--port` without DPDK, so that the launcher can check it before the program starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "uroce/address.h"

namespace uroce {

enum class PortKind : uint8_t {
  kSegment,  // "", "shmlan", "shmlan:NAME": shared memory, in which all programs of the machine are one host;
             // "network": with a way out of the machine that is made when there is none
  kSwitch,   // "switch", "switch:NAME": a port of uroce-switch
  kVirtual,  // "net_af_packet0,iface=eth0": a DPDK vdev and its arguments
  kPci,      // "0000:03:00.0" or "03:00.0", arguments after a comma
};

struct PortSpec {
  PortKind kind = PortKind::kVirtual;
  std::string device;      // "net_af_packet0", "0000:03:00.0"
  std::string args;        // after the device's comma
  std::string driver;      // "net_af_packet"; "" for PCI
  std::string wire;        // name of a segment, or of a switch
  std::string netdev;      // the kernel interface that the port uses, or ""
  bool leads_out = false;  // of a segment: see that there is a way out of the machine (host/way_out.h)

  /// The value of `key=` in `args`.
  std::optional<std::string> arg(std::string_view key) const;
};

/// The port that leads to other machines by itself.
inline constexpr const char* kNetworkPort = "network";
/// The name of a switch to which nobody gave one.
inline constexpr const char* kDefaultSwitchName = "lab";

/// Returns nothing, with one line in `error`, when the text is not a port.
std::optional<PortSpec> parse_port_spec(const std::string& text, std::string& error);

}  // namespace uroce
