#include "pmd/card/rss.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "pmd/hw/formats.h"
#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace {

// The key of Microsoft's RSS verification suite, which is a constant in the RTL; as much of it as 12 bytes of input
// need.
constexpr std::array<uint8_t, 16> kKey = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2,
                                          0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0};
constexpr size_t kInputMax = 12;

constexpr uint32_t key_window(size_t bit) {
  uint64_t bits = 0;
  for (size_t i = 0; i < 5; ++i) bits = bits << 8 | kKey[bit / 8 + i];
  return static_cast<uint32_t>(bits >> (8 - bit % 8));
}

/// What each value of each input byte contributes.
using ByteTable = std::array<uint32_t, 256>;
constexpr std::array<ByteTable, kInputMax> make_tables() {
  std::array<ByteTable, kInputMax> tables{};
  for (size_t position = 0; position < kInputMax; ++position) {
    // The entry of a value is that of the value without its lowest bit, combined with that bit's own.
    for (size_t value = 1; value < 256; ++value) {
      const size_t rest = value & (value - 1);
      const auto lowest = static_cast<size_t>(std::countr_zero(value));
      tables[position][value] = tables[position][rest] ^ key_window(position * 8 + 7 - lowest);
    }
  }
  return tables;
}
constexpr auto kTables = make_tables();

constexpr size_t kEtherType = 12, kIpStart = 14, kIpProtocol = 23, kIpAddresses = 26, kPorts = 34, kPortsEnd = 38;

}  // namespace

uint32_t toeplitz(std::span<const uint8_t> bytes) {
  uint32_t hash = 0;
  for (size_t i = 0; i < std::min(bytes.size(), kInputMax); ++i) hash ^= kTables[i][bytes[i]];
  return hash;
}

FrameHash hash_frame(std::span<const uint8_t> frame) {
  if (frame.size() < kPorts || frame[kEtherType] != 0x08 || frame[kEtherType + 1] != 0x00) return {};
  const bool options = (frame[kIpStart] & 0x0f) != 5;
  const uint8_t protocol = frame[kIpProtocol];
  const bool tcp = protocol == 6 && !options, udp = protocol == 17 && !options;
  if (!tcp && !udp) return {toeplitz(frame.subspan(kIpAddresses, 8)), kHashIpv4};
  if (frame.size() < kPortsEnd) return {};
  return {toeplitz(frame.subspan(kIpAddresses, 12)),
          static_cast<uint8_t>(kHashIpv4 | (tcp ? kHashTcp : 0) | (udp ? kHashUdp : 0))};
}

FrameHash FrameHasher::hash(std::span<const uint8_t> frame) {
  if (frame.size() < kPortsEnd) return hash_frame(frame);
  // Read once: it may lie in memory that the peer of the cable writes to.
  std::array<uint8_t, kPortsEnd> head;
  std::memcpy(head.data(), frame.data(), head.size());
  // Type, version with header length, protocol; addresses and ports.
  uint64_t now[2];
  std::memcpy(&now[1], head.data() + kIpAddresses, 8);
  uint32_t ports;
  std::memcpy(&ports, head.data() + kPorts, 4);
  now[0] = ports | uint64_t{head[kEtherType]} << 32 | uint64_t{head[kEtherType + 1]} << 40 |
           uint64_t{head[kIpStart]} << 48 | uint64_t{head[kIpProtocol]} << 56;
  if (now[0] != recent_[0] || now[1] != recent_[1]) {
    of_recent_ = hash_frame(head);
    recent_ = {now[0], now[1]};
  }
  return of_recent_;
}

RxQueueMap::RxQueueMap(unsigned ports, unsigned log2_table, unsigned queues)
    : ports_(ports),
      table_(size_t{ports} << log2_table),
      log2_table_(log2_table),
      queue_mask_(std::bit_ceil(queues) - 1),
      // In the RTL the masks have as many bits as a queue number, which are never fewer than the table's index has. In
      // the model, a build may have fewer queues than table entries.
      mask_bits_(std::max(queue_mask_, (1u << log2_table) - 1)) {}

bool RxQueueMap::write_table(uint32_t entry, uint32_t value) {
  if (entry >= table_.size()) return false;
  table_[entry] = value;
  return true;
}

uint32_t RxQueueMap::read(unsigned port, uint32_t offset, uint32_t table_offset) const {
  switch (offset) {
    case rx_queue_map::kTableOffset:
      return table_offset + (port << (log2_table_ + 2));
    case rx_queue_map::kRssMask:
      return ports_[port].rss_mask;
    case rx_queue_map::kAppMask:
      return ports_[port].app_mask;
    default:
      return 0;
  }
}

bool RxQueueMap::write(unsigned port, uint32_t offset, uint32_t value) {
  if (offset == rx_queue_map::kRssMask) {
    ports_[port].rss_mask = value & mask_bits_;
    return true;
  }
  if (offset == rx_queue_map::kAppMask) {
    ports_[port].app_mask = value & (mask_bits_ | 1u << 31);
    return true;
  }
  return false;
}

void RxQueueMap::reset() {
  std::fill(ports_.begin(), ports_.end(), Port{});
  std::fill(table_.begin(), table_.end(), 0);
}

}  // namespace mqnic::card
