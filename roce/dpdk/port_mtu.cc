#include "dpdk/port_mtu.h"

#include <algorithm>

#include <rte_ethdev.h>

#include "host/endpoint_options.h"

namespace uroce {

bool fit_mtu(const EndpointConfig& config, PortPlan& plan, std::string& error) {
  uint32_t mtu = config.mtu != 0 ? config.mtu : kFullMtu;
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(plan.options.port_id, &info) == 0;
  // Some drivers state a limit that they do not have, or none at all.
  if (known && info.max_mtu != 0 && info.max_mtu != UINT16_MAX && mtu > info.max_mtu) {
    if (info.max_mtu < kMtuMin) {
      error =
          "port " + plan.name + " takes an MTU of " + std::to_string(info.max_mtu) + " at most, too little for RoCE";
      return false;
    }
    if (config.mtu != 0) {
      error = "an MTU of " + std::to_string(config.mtu) + " is more than port " + plan.name +
              " takes: " + std::to_string(info.max_mtu) + " at most";
      return false;
    }
    mtu = info.max_mtu;
  }
  use_mtu(plan, mtu);
  plan.options.mtu = plan.max_frame_bytes - kLinkHeaderBytes;
  return true;
}

}  // namespace uroce
