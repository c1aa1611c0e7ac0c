#include "oracle/target_memory.h"

#include <cstring>

#include "base/check.h"
#include "oracle/random_bytes.h"

namespace uroce::oracle {

TargetMemory::TargetMemory(const sim::Side& side, uint32_t bytes, SeededRandom& random) : memory_(side.buffer(bytes)) {
  fill_with_random_bytes(memory_, random);
  accept();
}

std::vector<uint8_t> TargetMemory::expected(uint32_t offset, uint32_t bytes) const {
  ensure(uint64_t{offset} + bytes <= model_.size(), "what is drawn to be read lies in the peer's memory");
  return {model_.begin() + offset, model_.begin() + offset + bytes};
}

void TargetMemory::expect(uint32_t offset, const void* from, uint32_t bytes) {
  ensure(uint64_t{offset} + bytes <= model_.size(), "what is drawn to be written lies in the peer's memory");
  if (bytes != 0) std::memcpy(model_.data() + offset, from, bytes);
}

std::optional<uint32_t> TargetMemory::find_difference(uint32_t begin) const {
  for (uint32_t i = begin; i < memory_.size; i++) {
    if (memory_.data()[i] != model_[i]) return i;
  }
  return std::nullopt;
}

}  // namespace uroce::oracle
