// The names and addresses of an endpoint, which are known without starting EAL. `ibv_devices` needs them.
#pragma once

#include <string>
#include <vector>

#include "uroce/address.h"

namespace uroce {

struct EndpointIdentity {
  MacAddress mac;
  std::vector<LocalAddress> addresses;
  std::string netdev;  // the kernel interface that the port uses, or ""
};

}  // namespace uroce
