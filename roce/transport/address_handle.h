// The destination of a UD message.
#pragma once

#include <cstdint>

#include "packet/path_header.h"
#include "uroce/types.h"

namespace uroce {

/// Created by the engine from address attributes, and destroyed by its creator.
struct AddressHandle {
  PdId pd = 0;
  PathSpec path;  // as given; the MAC is filled in when it is known
  PathHeader header;
  bool resolved = false;
  uint8_t static_rate = 0;
  uint32_t place = 0;  // its index in the engine's list
};

}  // namespace uroce
