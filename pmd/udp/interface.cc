#include "pmd/udp/interface.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::udp {
namespace {

bool has(const Netdev& netdev, const IpAddress& ip) {
  return link_local_of(netdev.mac) == ip || std::any_of(netdev.addresses.begin(), netdev.addresses.end(),
                                                        [&](const LocalAddress& own) { return own.ip == ip; });
}

}  // namespace

bool find_interface(const Arguments& arguments, Netdev& out, std::string& error) {
  if (!arguments.iface.empty()) {
    if (const auto netdev = read_netdev(arguments.iface)) {
      out = *netdev;
      return true;
    }
    error = arguments.device + ": iface=" + arguments.iface + ": " + std::strerror(errno);
    return false;
  }
  if (arguments.addresses.empty()) {
    error = arguments.device + ": say addr=IP/PREFIX, an address of this machine, or iface=INTERFACE";
    return false;
  }
  const IpAddress& ip = arguments.addresses.front().ip;
  for (const std::string& name : list_netdevs().value_or(std::vector<std::string>{})) {
    const auto netdev = read_netdev(name);
    if (!netdev || !has(*netdev, ip)) continue;
    out = *netdev;
    return true;
  }
  error = arguments.device + ": addr=" + to_string(ip) + ": no interface of this machine has the address";
  return false;
}

}  // namespace uroce::udp
