#include "pcap/pcap_writer.h"

#include <algorithm>

namespace uroce::pcap {

void PcapWriter::put16(uint16_t v) {
  for (unsigned i = 0; i < 2; i++)
    bytes_.push_back(static_cast<uint8_t>(v >> (options_.big_endian ? 8 - 8 * i : 8 * i)));
}

void PcapWriter::put32(uint32_t v) {
  for (unsigned i = 0; i < 4; i++) {
    bytes_.push_back(static_cast<uint8_t>(v >> (options_.big_endian ? 24 - 8 * i : 8 * i)));
  }
}

PcapWriter::PcapWriter(const PcapOptions& options) : options_(options) {
  put32(options_.nanoseconds ? 0xA1B23C4D : 0xA1B2C3D4);
  put16(2);
  put16(4);
  put32(0);
  put32(0);
  put32(262144);  // longest frame
  put32(static_cast<uint16_t>(options_.link));
}

void PcapWriter::add(Instant time, std::span<const uint8_t> frame, uint32_t original_bytes) {
  const auto bytes = static_cast<uint32_t>(frame.size());
  put32(static_cast<uint32_t>(time.ns / 1'000'000'000));
  put32(static_cast<uint32_t>(time.ns % 1'000'000'000 / (options_.nanoseconds ? 1 : 1000)));
  put32(bytes);
  put32(std::max(bytes, original_bytes));
  bytes_.insert(bytes_.end(), frame.begin(), frame.end());
}

}  // namespace uroce::pcap
