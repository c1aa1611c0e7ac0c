#include "pmd/udp/arguments.h"

namespace uroce::udp {
namespace {

/// An empty string, or what is wrong.
std::string take_one(Arguments& out, const std::string& key, const std::string& value) {
  if (key == "iface") {
    if (value.empty()) return "an interface is wanted, such as eth0";
    out.iface = value;
  } else if (key == "mac") {
    return take_mac(out, value);
  } else if (key == "addr") {
    if (std::string why = take_address(out, value); !why.empty()) return why;
    const LocalAddress& address = out.addresses.back();
    if (address.vlan_id != 0) return "the kernel has VLANs as interfaces of their own: their addresses need no @VLAN";
    if (address.ip.is_multicast() || address.ip.is_zero()) return "not the address of a host";
  } else {
    return "unknown argument; known are " UDP_ARGUMENTS;
  }
  return "";
}

}  // namespace

bool parse_arguments(const std::string& device, const char* text, Arguments& out, std::string& error) {
  out = {};
  out.device = device;
  const auto take = [&](const std::string& key, const std::string& value) { return take_one(out, key, value); };
  return vdev::read_arguments(device, text, take, error);
}

}  // namespace uroce::udp
