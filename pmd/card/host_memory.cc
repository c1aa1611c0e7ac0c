#include "pmd/card/host_memory.h"

#include <algorithm>

namespace mqnic::card {

bool HostMemory::map(uint64_t dma_address, size_t bytes, uint8_t* data) {
  if (bytes == 0 || dma_address + (bytes - 1) < dma_address) return false;
  const auto above = std::upper_bound(ranges_.begin(), ranges_.end(), dma_address,
                                      [](uint64_t address, const Range& range) { return address < range.dma_address; });
  if (above != ranges_.end() && above->dma_address - dma_address < bytes) return false;
  if (above != ranges_.begin() && dma_address - (above - 1)->dma_address < (above - 1)->bytes) return false;
  ranges_.insert(above, {dma_address, bytes, data});
  return true;
}

uint8_t* HostMemory::unmap(uint64_t dma_address, size_t bytes) {
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return range.dma_address == dma_address && range.bytes == bytes;
  });
  if (found == ranges_.end()) return nullptr;
  uint8_t* data = found->data;
  ranges_.erase(found);
  last_ = {};
  return data;
}

uint8_t* HostMemory::search(uint64_t dma_address, size_t bytes) {
  const auto above = std::upper_bound(ranges_.begin(), ranges_.end(), dma_address,
                                      [](uint64_t address, const Range& range) { return address < range.dma_address; });
  if (above == ranges_.begin()) return nullptr;
  const Range& range = *(above - 1);
  const uint64_t offset = dma_address - range.dma_address;
  if (offset >= range.bytes || bytes > range.bytes - offset) return nullptr;
  last_ = range;
  return range.data + offset;
}

}  // namespace mqnic::card
