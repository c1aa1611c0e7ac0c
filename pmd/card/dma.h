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

  /// Statistics IDs 32 to 63: operations, bytes and errors of reads and writes. Others are 0.
  uint64_t statistic(unsigned id) const;
  void reset() { read_operations_ = read_bytes_ = read_errors_ = write_operations_ = write_bytes_ = write_errors_ = 0; }

 private:
  HostMemory* memory_;
  CardReport* report_;
  uint64_t read_operations_ = 0, read_bytes_ = 0, read_errors_ = 0;
  uint64_t write_operations_ = 0, write_bytes_ = 0, write_errors_ = 0;
};

}  // namespace mqnic::card
