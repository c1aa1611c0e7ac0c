// Who an endpoint is, known without starting EAL: what `ibv_devices` needs.
#pragma once

#include <string>
#include <vector>

#include "uroce/address.h"

namespace uroce {

struct EndpointIdentity {
  MacAddress mac;
  std::vector<LocalAddress> addresses;
  std::string netdev;  // kernel interface below the port, or ""
};

}  // namespace uroce
