// Writes classic pcap into memory, for tests that make or mutate captures, and for tools that save the bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pcap/frame.h"
#include "uroce/time.h"

namespace uroce::pcap {

struct PcapOptions {
  LinkType link = LinkType::kEthernet;
  bool nanoseconds = true;  // else microseconds
  bool big_endian = false;
};

class PcapWriter {
 public:
  explicit PcapWriter(const PcapOptions& options = {});

  /// `original_bytes` is the length on the wire, if that is more than the size of `frame`.
  void add(Instant time, std::span<const uint8_t> frame, uint32_t original_bytes = 0);
  /// The file so far.
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  void put16(uint16_t v);
  void put32(uint32_t v);

  PcapOptions options_;
  std::vector<uint8_t> bytes_;
};

}  // namespace uroce::pcap
