#include "pmd/card/dma.h"

#include <algorithm>
#include <cstring>

namespace mqnic::card {
namespace {

constexpr unsigned kFirstOfReads = 32, kFirstOfWrites = 48;
// What PCIe hosts commonly allow, and how long this host always takes, in clocks of the card's core (4 ns).
constexpr size_t kReadRequestBytes = 512, kWriteRequestBytes = 256;
constexpr uint64_t kReadCycles = 150, kWriteCycles = 10;

/// Calls `here(host, offset, bytes)` for every part of the range that lies in one mapping. `elsewhere(offset)` is for
/// what begins in none, and returns how many bytes it copied; 0 ends this, with false. Rings and buffers may span
/// adjacent mappings, such as two huge pages.
template <typename Here, typename Elsewhere>
bool each_piece(HostMemory& memory, uint64_t address, size_t bytes, Here here, Elsewhere elsewhere) {
  size_t done = 0;
  while (done < bytes) {
    const std::span<uint8_t> host = memory.from(address + done);
    size_t count = std::min(host.size(), bytes - done);
    if (count != 0) {
      here(host.data(), done, count);
    } else {
      count = elsewhere(done);
    }
    if (count == 0) return false;
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
  const auto copy = [to](const uint8_t* host, size_t offset, size_t count) { std::memcpy(to + offset, host, count); };
  const bool ok = each_piece(*memory_, address, bytes, copy, [&](size_t offset) {
    const std::span<uint8_t> rest(to + offset, bytes - offset);
    const size_t count = memory_->remote() != nullptr ? memory_->remote()->read(address + offset, rest) : 0;
    if (count == 0) std::fill(rest.begin(), rest.end(), uint8_t{0});
    return count;
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
  const auto copy = [from](uint8_t* host, size_t offset, size_t count) { std::memcpy(host, from + offset, count); };
  const bool ok = each_piece(*memory_, address, bytes, copy, [&](size_t offset) {
    return memory_->remote() != nullptr ? memory_->remote()->write(address + offset, {from + offset, bytes - offset})
                                        : 0;
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
    if (memory_->remote() != nullptr && memory_->remote()->write(address, {from, bytes}) == bytes) return true;
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
