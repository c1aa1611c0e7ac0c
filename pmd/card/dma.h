// The card's access to the host's memory, with the statistics of the real card.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pmd/card/card.h"
#include "pmd/card/copy.h"
#include "pmd/card/host_memory.h"

namespace mqnic::card {

/// A completion or an event, as words of the host's memory. The phase is the uppermost bit of the last one.
using QueueEntry = std::array<uint64_t, 4>;

class Dma {
 public:
  Dma(HostMemory& memory, CardReport& report) : memory_(&memory), report_(&report) {}

  /// Copies `bytes` bytes from the host. What is not mapped reads as zeros; then the result is false.
  bool read(uint64_t address, uint8_t* to, size_t bytes) {
    reads_.count(bytes, kReadRequestBytes);
    const uint8_t* host = memory_->at(address, bytes);
    if (host == nullptr) [[unlikely]]
      return read_pieces(address, to, bytes);
    copy_bytes(to, host, bytes);
    return true;
  }
  /// Peeks at the first descriptor of a block, uncounted. False unless the whole block is in one mapping.
  template <typename Value>
  bool peek(uint64_t address, size_t block_bytes, Value& value) {
    const uint8_t* host = memory_->at(address, block_bytes);
    if (host == nullptr) return false;
    std::memcpy(&value, host, sizeof(value));
    return true;
  }
  /// Counts what `peek` looked at as a read.
  void count_read(size_t bytes) { reads_.count(bytes, kReadRequestBytes); }
  /// Copies to the host. What is not mapped is lost; then the result is false.
  bool write(uint64_t address, const uint8_t* from, size_t bytes) {
    writes_.count(bytes, kWriteRequestBytes);
    uint8_t* host = memory_->at(address, bytes);
    if (host == nullptr) [[unlikely]]
      return write_pieces(address, from, bytes);
    copy_bytes(host, from, bytes);
    return true;
  }
  /// The same, and returns the sum of the bytes that it writes (copy_and_sum).
  uint64_t write_and_sum(uint64_t address, const uint8_t* from, size_t bytes) {
    writes_.count(bytes, kWriteRequestBytes);
    if (uint8_t* host = memory_->at(address, bytes)) [[likely]]
      return copy_and_sum(host, from, bytes);
    write_pieces(address, from, bytes);
    return sum_words(from, bytes);
  }
  /// Writes an entry of a completion or event ring; the last word, which has the phase, is written after all others.
  bool write_entry(uint64_t address, const QueueEntry& entry) {
    writes_.count(sizeof(entry), kWriteRequestBytes);
    uint8_t* host = memory_->at(address, sizeof(entry));
    if (host == nullptr || reinterpret_cast<uintptr_t>(host) % alignof(uint64_t) != 0) [[unlikely]]
      return write_odd_entry(address, host, entry);
    // Word by word, as they were made: a wider load would have to wait until those stores are in the cache.
    auto* words = reinterpret_cast<uint64_t*>(host);
    __atomic_store_n(words, entry[0], __ATOMIC_RELAXED);
    __atomic_store_n(words + 1, entry[1], __ATOMIC_RELAXED);
    __atomic_store_n(words + 2, entry[2], __ATOMIC_RELAXED);
    __atomic_store_n(words + 3, entry[3], __ATOMIC_RELEASE);
    return true;
  }

  /// True when the host is gone; see RemoteMemory.
  bool lost() const { return memory_->remote() != nullptr && memory_->remote()->lost(); }

  /// Statistics IDs 32 to 63: of reads and, from 48 on, of writes: operations, bytes, latencies, errors, requests (of
  /// which a long operation has several) and latencies of these; latencies are sums of clocks. Others are 0.
  uint64_t statistic(unsigned id) const;
  void reset() { reads_ = writes_ = {}; }

 private:
  // What PCIe hosts commonly allow.
  static constexpr size_t kReadRequestBytes = 512, kWriteRequestBytes = 256;

  bool read_pieces(uint64_t address, uint8_t* to, size_t bytes);
  bool write_pieces(uint64_t address, const uint8_t* from, size_t bytes);
  bool write_odd_entry(uint64_t address, uint8_t* host, const QueueEntry& entry);

  HostMemory* memory_;
  CardReport* report_;
  struct Counts {
    uint64_t operations = 0, bytes = 0, errors = 0;
    uint64_t further_requests = 0;  // of operations that take more than one
    void count(size_t of_bytes, size_t of_request) {
      ++operations;
      bytes += of_bytes;
      if (of_bytes > of_request) further_requests += (of_bytes - 1) / of_request;
    }
    uint64_t requests() const { return operations + further_requests; }
  };
  Counts reads_, writes_;
};

}  // namespace mqnic::card
