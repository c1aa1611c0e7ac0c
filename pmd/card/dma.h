// The card's access to the host's memory, with the statistics of the real card.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pmd/card/card.h"
#include "pmd/card/host_memory.h"

namespace mqnic::card {

class Dma {
 public:
  Dma(HostMemory& memory, CardReport& report) : memory_(&memory), report_(&report) {}

  /// Copies `bytes` bytes from the host. What is not mapped reads as zeros; then the result is false.
  bool read(uint64_t address, uint8_t* to, size_t bytes);
  /// Copies to the host. What is not mapped is lost; then the result is false.
  bool write(uint64_t address, const uint8_t* from, size_t bytes);
  /// Writes an entry of a completion or event ring; the last byte, which has the phase, is written after all others.
  bool write_entry(uint64_t address, const uint8_t* from, size_t bytes);

  /// Statistics IDs 32 to 63: of reads and, from 48 on, of writes: operations, bytes, latencies, errors, requests (of
  /// which a long operation has several) and latencies of these; latencies are sums of clocks. Others are 0.
  uint64_t statistic(unsigned id) const;
  void reset() { reads_ = writes_ = {}; }

 private:
  HostMemory* memory_;
  CardReport* report_;
  struct Counts {
    uint64_t operations = 0, bytes = 0, errors = 0, requests = 0;
    void count(size_t of_bytes, size_t of_request) {
      ++operations;
      bytes += of_bytes;
      requests += (of_bytes + of_request - 1) / of_request;
    }
  };
  Counts reads_, writes_;
};

}  // namespace mqnic::card
