// The host's memory as the card model sees it: what was mapped for DMA and nothing else, as behind an IOMMU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mqnic::card {

/// Ranges of DMA addresses, and where their bytes are in this process. Not for several threads at once: whoever runs
/// the card owns it.
class HostMemory {
 public:
  /// False when the range is empty, wraps around, or overlaps another.
  bool map(uint64_t dma_address, size_t bytes, uint8_t* data);
  /// An exact range that was mapped. Its data pointer, or nullptr when there is no such range.
  uint8_t* unmap(uint64_t dma_address, size_t bytes);

  /// `bytes` bytes at `dma_address`, nullptr when they are not mapped whole and in one piece.
  uint8_t* at(uint64_t dma_address, size_t bytes) {
    if (dma_address - last_.dma_address < last_.bytes && bytes <= last_.bytes - (dma_address - last_.dma_address)) {
      return last_.data + (dma_address - last_.dma_address);
    }
    return search(dma_address, bytes);
  }

 private:
  struct Range {
    uint64_t dma_address = 0;
    size_t bytes = 0;
    uint8_t* data = nullptr;
  };
  uint8_t* search(uint64_t dma_address, size_t bytes);

  std::vector<Range> ranges_;  // sorted by address
  Range last_;                 // the one that was used last
};

}  // namespace mqnic::card
