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
  recent_ = {};
  return data;
}

const HostMemory::Range& HostMemory::search(uint64_t dma_address) {
  static constexpr Range kNone;
  const auto above = std::upper_bound(ranges_.begin(), ranges_.end(), dma_address,
                                      [](uint64_t address, const Range& range) { return address < range.dma_address; });
  if (above == ranges_.begin()) return kNone;
  const Range& range = *(above - 1);
  if (dma_address - range.dma_address >= range.bytes) return kNone;
  Range& recent = recent_[(dma_address >> kRecentShift) % recent_.size()];
  recent = range;
  return recent;
}

uint8_t* HostMemory::search_at(uint64_t dma_address, size_t bytes) {
  const Range& range = find(dma_address);
  const uint64_t offset = dma_address - range.dma_address;
  if (offset >= range.bytes || bytes > range.bytes - offset) return nullptr;
  return range.data + offset;
}

}  // namespace mqnic::card
