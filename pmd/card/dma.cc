#include "pmd/card/dma.h"

#include <algorithm>
#include <cstring>

namespace mqnic::card {
namespace {

constexpr unsigned kFirstOfReads = 32, kFirstOfWrites = 48;
// How long this host always takes, in clocks of the card's core (4 ns).
constexpr uint64_t kReadCycles = 150, kWriteCycles = 10;

/// Calls `here(host, offset, bytes)` for every part of the range that lies in one mapping. `elsewhere(offset)` is
/// called for a part that begins in no mapping, and returns how many bytes it copied; 0 ends the walk, and the result
/// is false. Rings and buffers may span adjacent mappings, such as two huge pages.
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

bool Dma::read_pieces(uint64_t address, uint8_t* to, size_t bytes) {
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

bool Dma::write_pieces(uint64_t address, const uint8_t* from, size_t bytes) {
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

bool Dma::write_odd_entry(uint64_t address, uint8_t* host, const QueueEntry& entry) {
  if (host == nullptr) {
    const auto* from = reinterpret_cast<const uint8_t*>(entry.data());
    RemoteMemory* const remote = memory_->remote();
    if (remote != nullptr && remote->write(address, {from, sizeof(entry)}) == sizeof(entry)) return true;
    ++writes_.errors;
    ++report_->dma_faults;
    return false;
  }
  constexpr size_t kLast = sizeof(entry) - 1;
  std::memcpy(host, entry.data(), kLast);
  __atomic_store_n(host + kLast, static_cast<uint8_t>(entry[3] >> 56), __ATOMIC_RELEASE);
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
      return counts.requests();
    case 5:
      return counts.requests() * (id < kFirstOfWrites ? kReadCycles : kWriteCycles);
    default:
      return 0;
  }
}

}  // namespace mqnic::card
