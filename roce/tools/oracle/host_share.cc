#include "oracle/host_share.h"

#include "oracle/random_bytes.h"

namespace uroce::oracle {

HostShare::HostShare(const sim::Side& side, uint32_t source_bytes, SeededRandom& random)
    : source(side.buffer(source_bytes, kLocalWrite)), counter(side) {
  fill_with_random_bytes(source, random);
}

}  // namespace uroce::oracle
