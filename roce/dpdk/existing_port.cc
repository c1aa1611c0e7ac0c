#include "dpdk/existing_port.h"

#include <net/if.h>

#include <charconv>
#include <cstring>
#include <system_error>

#include <rte_dev.h>
#include <rte_ethdev.h>

#include "dpdk/port_mtu.h"
#include "host/port_driver.h"

namespace uroce {

namespace {

/// Finds a port by its number or by its name.
bool find_port(const std::string& port, uint16_t& id) {
  const char* const end = port.data() + port.size();
  const auto [rest, code] = std::from_chars(port.data(), end, id);
  if (rest != end) return rte_eth_dev_get_port_by_name(port.c_str(), &id) == 0;
  return code == std::errc() && rte_eth_dev_is_valid_port(id) != 0;
}

}  // namespace

bool plan_existing_port(const EndpointConfig& config, PortPlan& plan, std::string& error) {
  uint16_t id = 0;
  const bool found = config.port.empty() ? rte_eth_dev_is_valid_port(id) != 0 : find_port(config.port, id);
  rte_eth_dev_info info{};
  rte_ether_addr mac{};
  if (!found || rte_eth_dev_info_get(id, &info) != 0 || rte_eth_macaddr_get(id, &mac) != 0) {
    error = "DPDK has no port " + (config.port.empty() ? std::string("at all") : "'" + config.port + "'") +
            ": give EAL one, for example --vdev=net_af_packet0,iface=eth0";
    return false;
  }
  std::memcpy(plan.identity.mac.bytes.data(), mac.addr_bytes, 6);
  plan.identity.addresses = config.addresses;
  plan.options.port_id = id;
  plan.options.unplug = false;
  plan.name = rte_dev_name(info.device);
  plan.spec.driver = info.driver_name;
  char netdev_name[64] = {};
  if (info.if_index != 0 && if_indextoname(info.if_index, netdev_name) != nullptr)
    plan.netdev = read_netdev(netdev_name);
  if (netdev_name[0] != 0 && !plan.netdev && errno != ENODEV) {
    error = std::string("interface ") + netdev_name + " cannot be asked: " + std::strerror(errno);
    return false;
  }
  if (plan.netdev) plan.identity.netdev = netdev_name;
  if (plan.netdev && !carries_roce(*plan.netdev, error)) return false;
  if (plan.netdev && config.addresses.empty()) plan.identity.addresses = plan.netdev->addresses;
  plan.options.wire = port_driver(plan.spec.driver).is_wire;
  if (!plan.options.wire && !plan.netdev) return fit_mtu(config, plan, error);
  use_mtu(plan, config.mtu != 0 ? config.mtu : plan.netdev ? plan.netdev->mtu : kFullMtu);
  if (plan.options.wire) {
    const rte_devargs* args = rte_dev_devargs(info.device);
    plan.options.connects =
        args == nullptr || args->args == nullptr || std::strstr(args->args, "role=server") == nullptr;
  }
  return true;
}

}  // namespace uroce
