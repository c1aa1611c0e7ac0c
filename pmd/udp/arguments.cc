#include "pmd/udp/arguments.h"

#include <algorithm>

namespace uroce::udp {
namespace {

/// An empty string, or what is wrong.
std::string parse_one(Arguments& out, const std::string& key, const std::string& value) {
  if (key == "iface") {
    if (value.empty()) return "an interface is wanted, such as eth0";
    out.iface = value;
  } else if (key == "mac") {
    out.mac = parse_mac(value);
    if (!out.mac || out.mac->is_multicast() || out.mac->is_zero()) return "not the address of a station";
  } else if (key == "addr") {
    const auto address = parse_local_address(value);
    if (!address) return "an address with its prefix is wanted, such as 10.0.0.5/24";
    if (address->vlan_id != 0) return "the kernel has VLANs as interfaces of their own: their addresses need no @VLAN";
    if (address->ip.is_multicast() || address->ip.is_zero()) return "not the address of a host";
    out.addresses.push_back(*address);
  } else {
    return "unknown argument; known are " UDP_ARGUMENTS;
  }
  return "";
}

}  // namespace

bool parse_arguments(const std::string& device, const char* text, Arguments& out, std::string& error) {
  out = {};
  out.device = device;
  const std::string all = text == nullptr ? "" : text;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(',', begin), all.size());
    const std::string item = all.substr(begin, end - begin);
    begin = end + 1;
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    const std::string why = equals == std::string::npos || equals == 0
                                ? "key=value is needed"
                                : parse_one(out, item.substr(0, equals), item.substr(equals + 1));
    if (why.empty()) continue;
    error = device + ": " + item + ": " + why;
    return false;
  }
  return true;
}

}  // namespace uroce::udp
