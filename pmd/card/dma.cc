#include "pmd/card/dma.h"

#include <algorithm>
#include <cstring>

namespace mqnic::card {
namespace {

constexpr unsigned kFirstOfReads = 32, kFirstOfWrites = 48;
// What PCIe hosts commonly allow, and how long this host always takes, in clocks of the card's core (4 ns).
constexpr size_t kReadRequestBytes = 512, kWriteRequestBytes = 256;
constexpr uint64_t kReadCycles = 150, kWriteCycles = 10;

/// Calls `piece(host, offset, bytes)` for every part of the range that lies in one mapping; `host` is nullptr for what
/// is not mapped. Rings and buffers may span adjacent mappings, such as two huge pages.
template <typename Piece>
bool each_piece(HostMemory& memory, uint64_t address, size_t bytes, Piece piece) {
  size_t done = 0;
  while (done < bytes) {
    const std::span<uint8_t> here = memory.from(address + done);
    if (here.empty()) {
      piece(nullptr, done, bytes - done);
      return false;
    }
    const size_t count = std::min(here.size(), bytes - done);
    piece(here.data(), done, count);
    done += count;
  }
  return true;
}

}  // namespace

bool Dma::read(uint64_t address, uint8_t* to, size_t bytes) {
  reads_.count(bytes, kReadRequestBytes);
  if (const uint8_t* host = memory_->at(address, bytes)) {
    std::memcpy(to, host, bytes);
    return true;
  }
  const bool ok = each_piece(*memory_, address, bytes, [to](const uint8_t* host, size_t offset, size_t count) {
    if (host != nullptr) {
      std::memcpy(to + offset, host, count);
    } else {
      std::memset(to + offset, 0, count);
    }
  });
  if (!ok) {
    ++reads_.errors;
    ++report_->dma_faults;
  }
  return ok;
}

bool Dma::write(uint64_t address, const uint8_t* from, size_t bytes) {
  writes_.count(bytes, kWriteRequestBytes);
  if (uint8_t* host = memory_->at(address, bytes)) {
    std::memcpy(host, from, bytes);
    return true;
  }
  const bool ok = each_piece(*memory_, address, bytes, [from](uint8_t* host, size_t offset, size_t count) {
    if (host != nullptr) std::memcpy(host, from + offset, count);
  });
  if (!ok) {
    ++writes_.errors;
    ++report_->dma_faults;
  }
  return ok;
}

bool Dma::write_entry(uint64_t address, const uint8_t* from, size_t bytes) {
  writes_.count(bytes, kWriteRequestBytes);
  uint8_t* host = memory_->at(address, bytes);
  if (host == nullptr) {
    ++writes_.errors;
    ++report_->dma_faults;
    return false;
  }
  std::memcpy(host, from, bytes - 1);
  __atomic_store_n(host + bytes - 1, from[bytes - 1], __ATOMIC_RELEASE);
  return true;
}

uint64_t Dma::statistic(unsigned id) const {
  const Counts& counts = id < kFirstOfWrites ? reads_ : writes_;
  switch (id < kFirstOfWrites ? id - kFirstOfReads : id - kFirstOfWrites) {
    case 0:
      return counts.operations;
    case 1:
      return counts.bytes;
    case 2:
      return counts.operations * (id < kFirstOfWrites ? kReadCycles : kWriteCycles);
    case 3:
      return counts.errors;
    case 4:
      return counts.requests;
    case 5:
      return counts.requests * (id < kFirstOfWrites ? kReadCycles : kWriteCycles);
    default:
      return 0;
  }
}

}  // namespace mqnic::card
