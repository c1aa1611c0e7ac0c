// The host's memory as the card model sees it: what was mapped for DMA and nothing else, as behind an IOMMU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
    const Range& range = find(dma_address);
    const uint64_t offset = dma_address - range.dma_address;
    if (offset >= range.bytes || bytes > range.bytes - offset) return nullptr;
    return range.data + offset;
  }

  /// What is mapped in one piece from `dma_address` on; empty when nothing is.
  std::span<uint8_t> from(uint64_t dma_address) {
    const Range& range = find(dma_address);
    const uint64_t offset = dma_address - range.dma_address;
    if (offset >= range.bytes) return {};
    return {range.data + offset, static_cast<size_t>(range.bytes - offset)};
  }

 private:
  struct Range {
    uint64_t dma_address = 0;
    size_t bytes = 0;
    uint8_t* data = nullptr;
  };

  /// The range with this address, or one without it.
  const Range& find(uint64_t dma_address) {
    const Range& recent = recent_[(dma_address >> kRecentShift) % recent_.size()];
    if (dma_address - recent.dma_address < recent.bytes) return recent;
    return search(dma_address);
  }
  const Range& search(uint64_t dma_address);

  // Rings and buffers usually lie in different huge pages; each has a place of its own in the short-cut.
  static constexpr unsigned kRecentShift = 21;

  std::vector<Range> ranges_;  // sorted by address
  std::array<Range, 16> recent_{};
};

}  // namespace mqnic::card
