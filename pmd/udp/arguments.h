// The arguments that a user writes after the name of a virtual device:
//   --vdev=net_udp0,addr=10.0.0.5/24
//   --vdev=net_udp0,iface=eth0,addr=10.0.0.5/24,addr=fd00::5/64
#pragma once

#include <string>

#include "pmd/vdev/arguments.h"

namespace uroce::udp {

/// The port has UDP port 4791 of the addresses from the start. Without `mac` it has the interface's MAC, or one that
/// follows from the first address.
struct Arguments : vdev::Arguments {
  std::string iface;  // whose link and MTU the port has; "": that of the first address
};

/// `text` is "key=value,key=value", or nullptr. Returns false, with one line in `error` that names the key, when a key
/// is unknown or a value is bad.
bool parse_arguments(const std::string& device, const char* text, Arguments& out, std::string& error);

/// The list of arguments, for `dpdk-pmdinfo` and messages.
#define UDP_ARGUMENTS "addr=<ip/prefix> iface=<interface> mac=<address>"

}  // namespace uroce::udp
