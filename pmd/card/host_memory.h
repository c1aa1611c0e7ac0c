// The host's memory as the card model sees it: only what was mapped for DMA, as behind an IOMMU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mqnic::card {

/// Memory of the host that this process cannot touch, but has another process read and write.
class RemoteMemory {
 public:
  virtual ~RemoteMemory() = default;
  /// Copies the beginning of a range, as much as one mapping contains of it. Returns how many bytes that was; 0 when
  /// the address is not mapped, not meant for this direction, or when nobody answers.
  virtual size_t read(uint64_t dma_address, std::span<uint8_t> to) = 0;
  virtual size_t write(uint64_t dma_address, std::span<const uint8_t> from) = 0;
  /// True when nothing answers any more, as on a bus that is gone: bytes that could not be read must not be sent.
  virtual bool lost() const = 0;
};

/// Ranges of DMA addresses, and where their bytes are in this process. Used by one thread at a time, the one that runs
/// the card.
class HostMemory {
 public:
  /// Adds a range. False when it is empty, wraps around, or overlaps another.
  bool map(uint64_t dma_address, size_t bytes, uint8_t* data);
  /// Removes a range exactly as it was mapped. Returns its data pointer, or nullptr when there is no such range.
  uint8_t* unmap(uint64_t dma_address, size_t bytes);

  /// The `bytes` bytes at `dma_address`; nullptr unless all of them are in one mapping.
  uint8_t* at(uint64_t dma_address, size_t bytes) {
    const Range& recent = recent_[(dma_address >> kRecentShift) % recent_.size()];
    const uint64_t offset = dma_address - recent.dma_address;
    if (offset < recent.bytes && bytes <= recent.bytes - offset) [[likely]]
      return recent.data + offset;
    return search_at(dma_address, bytes);
  }

  /// What one mapping contains from `dma_address` on; empty when that is not mapped.
  std::span<uint8_t> from(uint64_t dma_address) {
    const Range& range = find(dma_address);
    const uint64_t offset = dma_address - range.dma_address;
    if (offset >= range.bytes) return {};
    return {range.data + offset, static_cast<size_t>(range.bytes - offset)};
  }

  /// Sets where addresses in no mapping are looked up; nullptr: nowhere.
  void set_remote(RemoteMemory* remote) { remote_ = remote; }
  RemoteMemory* remote() const { return remote_; }

 private:
  struct alignas(32) Range {
    uint64_t dma_address = 0;
    size_t bytes = 0;
    uint8_t* data = nullptr;
  };

  /// The range that contains this address, or some other range when there is none.
  const Range& find(uint64_t dma_address) {
    const Range& recent = recent_[(dma_address >> kRecentShift) % recent_.size()];
    if (dma_address - recent.dma_address < recent.bytes) return recent;
    return search(dma_address);
  }
  const Range& search(uint64_t dma_address);
  uint8_t* search_at(uint64_t dma_address, size_t bytes);

  // A cache of recent ranges. Rings and buffers usually lie in different huge pages, and so have different entries in
  // it.
  static constexpr unsigned kRecentShift = 21;

  std::vector<Range> ranges_;  // sorted by address
  std::array<Range, 16> recent_{};
  RemoteMemory* remote_ = nullptr;
};

}  // namespace mqnic::card
