#include "oracle/host_share.h"

namespace uroce::oracle {

HostShare::HostShare(const sim::Side& side, uint32_t source_bytes, RandomSource& random)
    : source(side.buffer(source_bytes, kLocalWrite)), counter(side) {
  for (uint32_t i = 0; i < source.size; i++) source.data()[i] = static_cast<uint8_t>(random.next_u32());
}

}  // namespace uroce::oracle
