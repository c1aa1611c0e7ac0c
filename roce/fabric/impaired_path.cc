#include "fabric/impaired_path.h"

#include <array>

namespace uroce::fabric {

void ImpairedPath::put(const FabricFrame& frame, Instant at) {
  std::array<Delivery, Impairments::kMaxDeliveries> deliveries;
  const uint32_t count = faults_.on_frame(frame, at, deliveries);
  for (uint32_t i = 0; i < count; i++) {
    if (line_.push(deliveries[i].frame, at + deliveries[i].delay)) continue;
    full_++;
    pool_.release(deliveries[i].frame);
  }
}

FabricFrame ImpairedPath::take(Instant now) {
  const FabricFrame frame = line_.pop(now);
  return frame ? frame : faults_.poll_injected(now);
}

}  // namespace uroce::fabric
