#include "host/socket_plan.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "host/netdev.h"
#include "host/segment_plan.h"

namespace uroce {
namespace {

/// Calls `f(key, value)` for each argument of the port, until it returns false.
template <typename F>
bool for_each_argument(const PortSpec& spec, F&& f) {
  for (size_t begin = 0; begin < spec.args.size();) {
    const size_t end = std::min(spec.args.find(',', begin), spec.args.size());
    const std::string item = spec.args.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = std::min(item.find('='), item.size());
    if (!item.empty() && !f(item.substr(0, equals), equals < item.size() ? item.substr(equals + 1) : "")) return false;
  }
  return true;
}

bool read_addresses(const PortSpec& spec, std::vector<LocalAddress>& addresses, std::string& error) {
  return for_each_argument(spec, [&](const std::string& key, const std::string& value) {
    if (key == "iface" || key == "mac") return true;
    const auto address = key == "addr" ? parse_local_address(value) : std::nullopt;
    if (address) addresses.push_back(*address);
    if (!address)
      error =
          "port " + spec.device + ": " + key + "=" + value + ": it takes addr=IP/PREFIX, iface=INTERFACE and mac=MAC";
    return address.has_value();
  });
}

bool has(const Netdev& netdev, const IpAddress& ip) {
  const auto is = [&](const LocalAddress& own) { return own.ip == ip; };
  return std::any_of(netdev.addresses.begin(), netdev.addresses.end(), is) || link_local_of(netdev.mac) == ip;
}

/// "", when no interface has it.
std::string interface_of(const IpAddress& ip) {
  for (const std::string& name : list_netdevs().value_or(std::vector<std::string>{})) {
    const auto netdev = read_netdev(name);
    if (netdev && has(*netdev, ip)) return name;
  }
  return "";
}

}  // namespace

bool choose_socket_interface(const EndpointConfig& config, PortPlan& plan, std::vector<LocalAddress>& addresses,
                             std::string& error) {
  if (!read_addresses(plan.spec, addresses, error)) return false;
  addresses.insert(addresses.end(), config.addresses.begin(), config.addresses.end());
  if (config.lossless != 0) {
    error = "port " + plan.spec.device + " has no pause frames (--pfc): sockets know none";
    return false;
  }
  for (const LocalAddress& address : addresses) {
    const std::string owner = interface_of(address.ip);
    if (plan.spec.netdev.empty()) plan.spec.netdev = owner;
    if (!owner.empty() && address.vlan_id == 0) continue;
    error = "port " + plan.spec.device + ": " + to_string(address) +
            (owner.empty()
                 ? " is no address of this machine, and the kernel sends for its own only: `ip address` lists them"
                 : ": the kernel's VLANs are interfaces of their own: leave out the @");
    return false;
  }
  if (!plan.spec.netdev.empty()) return true;
  const auto own = addresses_of_machine(plan.spec.netdev);
  if (own && !own->empty()) return plan.of_machine = true;
  error = own ? "port " + plan.spec.device + ": no interface of this machine has an address: `ip address` lists them"
              : std::string("the addresses of this machine cannot be read: ") + std::strerror(errno);
  return false;
}

std::string socket_arguments(const PortPlan& plan) {
  std::string text = "iface=" + plan.spec.netdev;
  for (const LocalAddress& address : plan.identity.addresses) text += ",addr=" + to_string(address);
  return text + ",mac=" + to_string(plan.identity.mac);
}

}  // namespace uroce
