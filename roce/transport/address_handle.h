// The destination of a UD message.
#pragma once

#include <cstdint>

#include "packet/route_header.h"
#include "uroce/types.h"

namespace uroce {

/// Created by the engine from address attributes, and destroyed by its creator.
struct AddressHandle {
  PdId pd = 0;
  Route path;  // as given; the MAC is filled in when it is known
  RouteHeader header;
  bool resolved = false;
  uint8_t static_rate = 0;
  uint32_t place = 0;  // its index in the engine's list
};

}  // namespace uroce
