// The arguments that a user writes after the name of a virtual device:
//   --vdev=net_udp0,addr=10.0.0.5/24
//   --vdev=net_udp0,iface=eth0,addr=10.0.0.5/24,addr=fd00::5/64
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "uroce/address.h"

namespace uroce::udp {

struct Arguments {
  std::string device;                   // "net_udp0"
  std::string iface;                    // whose link and MTU the port has; "": that of the first address
  std::optional<MacAddress> mac;        // in place of the interface's, or one that follows from the first address
  std::vector<LocalAddress> addresses;  // whose UDP port 4791 the port has from the start
};

/// `text` is "key=value,key=value", or nullptr. Returns false, with one line in `error` that names the key, when a key
/// is unknown or a value is bad.
bool parse_arguments(const std::string& device, const char* text, Arguments& out, std::string& error);

/// The list of arguments, for `dpdk-pmdinfo` and messages.
#define UDP_ARGUMENTS "addr=<ip/prefix> iface=<interface> mac=<address>"

}  // namespace uroce::udp
