// The names and addresses of an endpoint, which are known without starting EAL. `ibv_devices` needs them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "uroce/address.h"

namespace uroce {

struct EndpointIdentity {
  MacAddress mac;
  std::vector<LocalAddress> addresses;
  std::string netdev;      // the kernel interface that the port uses or is shown to belong to, or ""
  uint32_t link_mbps = 0;  // of a port whose link is its own: its speed; 0: the link is that of `netdev`
  bool link_up = true;     // of such a link, as it was at the last look
  std::optional<MacAddress> planned_mac{};  // stood for `mac` until the device was opened, which only then tells it

  /// What the node GUID is made of: it has to be the same before and after the device is opened, because librdmacm
  /// finds its devices by what they said at first.
  const MacAddress& guid_mac() const { return planned_mac ? *planned_mac : mac; }
};

}  // namespace uroce
