#include "pmd/card/dma.h"

#include <algorithm>
#include <cstring>

namespace mqnic::card {
namespace {

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
  ++read_operations_;
  read_bytes_ += bytes;
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
    ++read_errors_;
    ++report_->dma_faults;
  }
  return ok;
}

bool Dma::write(uint64_t address, const uint8_t* from, size_t bytes) {
  ++write_operations_;
  write_bytes_ += bytes;
  if (uint8_t* host = memory_->at(address, bytes)) {
    std::memcpy(host, from, bytes);
    return true;
  }
  const bool ok = each_piece(*memory_, address, bytes, [from](uint8_t* host, size_t offset, size_t count) {
    if (host != nullptr) std::memcpy(host, from + offset, count);
  });
  if (!ok) {
    ++write_errors_;
    ++report_->dma_faults;
  }
  return ok;
}

bool Dma::write_entry(uint64_t address, const uint8_t* from, size_t bytes) {
  ++write_operations_;
  write_bytes_ += bytes;
  uint8_t* host = memory_->at(address, bytes);
  if (host == nullptr) {
    ++write_errors_;
    ++report_->dma_faults;
    return false;
  }
  std::memcpy(host, from, bytes - 1);
  __atomic_store_n(host + bytes - 1, from[bytes - 1], __ATOMIC_RELEASE);
  return true;
}

uint64_t Dma::statistic(unsigned id) const {
  switch (id) {
    case 32:
      return read_operations_;
    case 33:
      return read_bytes_;
    case 35:
      return read_errors_;
    case 48:
      return write_operations_;
    case 49:
      return write_bytes_;
    case 51:
      return write_errors_;
    default:
      return 0;
  }
}

}  // namespace mqnic::card
