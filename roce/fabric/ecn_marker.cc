#include "fabric/ecn_marker.h"

#include <cmath>

namespace uroce::fabric {

EcnMarker::EcnMarker(const EcnConfig& ecn, uint64_t bits_per_second) {
  if (!ecn.enabled) return;
  kmin_ = ecn_kmin(ecn, bits_per_second);
  kmax_ = ecn_kmax(ecn, bits_per_second);
  pmax32_ = static_cast<uint64_t>(std::llround(ecn.pmax * 4294967296.0));
}

}  // namespace uroce::fabric
