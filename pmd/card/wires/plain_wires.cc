#include "pmd/card/wires/plain_wires.h"

namespace mqnic::card {

std::span<uint8_t> NoWire::reserve(size_t bytes) {
  if (bytes > scrap_.size()) return {};
  return {scrap_.data(), bytes};
}

}  // namespace mqnic::card
