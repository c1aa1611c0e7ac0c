// What the engine looks at for each frame of a queue pair. It is apart from the rest of a queue pair's state
// (qp_context.h), so that the engine is not compiled with the protocol.
#pragma once

#include <cstdint>

#include "packet/route_header.h"
#include "uroce/qp_attributes.h"
#include "uroce/types.h"

namespace uroce {

struct QpCore {
  QpCore(QpType of_type, uint32_t number) : type(of_type), qpn(number) {}

  const QpType type;
  const uint32_t qpn;
  QpState state = QpState::kReset;
  bool path_resolved = false;
  Route path;
};

}  // namespace uroce
