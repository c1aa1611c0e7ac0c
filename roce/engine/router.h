// The paths that address vectors lead to.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/address_table.h"
#include "engine/loopback.h"
#include "engine/neighbours.h"
#include "packet/route_header.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"

namespace uroce {

/// Has no state of its own. The first path to one of our own addresses opens the loopback.
class Router {
 public:
  /// `traffic_class`: of paths that do not specify one.
  Router(const AddressTable& addresses, Neighbours& neighbours, Loopback& loopback, uint8_t traffic_class);

  /// Nothing when the source GID does not exist or cannot reach such an address. `flow`: what distinguishes this path
  /// from others between the same addresses. The MAC is zero when it is not known yet. 127.0.0.0/8 and ::1 lead to the
  /// source address itself.
  std::optional<Route> route(const AddressVector& av, uint32_t flow);
  /// Resolves the path's address, again if it is known; `sgid_index`: the row that the path came from.
  void ask_for(const Route& path, uint8_t sgid_index, Instant now);

 private:
  void find_mac(Route& path);

  const AddressTable& addresses_;
  Neighbours& neighbours_;
  Loopback& loopback_;
  const uint8_t traffic_class_;
};

}  // namespace uroce
