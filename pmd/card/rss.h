// Which RX queue a frame goes to: the Toeplitz hash (rx_hash.v) and the RX queue map (mqnic_rx_queue_map.v).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mqnic::card {

struct FrameHash {
  uint32_t value = 0;
  uint8_t type = 0;  // kHashIpv4, and kHashTcp or kHashUdp
};

/// Hashes IPv4 addresses, and ports of TCP and UDP: also of fragments, because the card does not look at the fragment
/// fields, but not behind IP options. Everything else, such as IPv6 and VLAN tags, hashes to 0 with type 0.
FrameHash hash_frame(std::span<const uint8_t> frame);

/// The same, with a cache: a frame often has the addresses and ports of the one before it.
class FrameHasher {
 public:
  FrameHash hash(std::span<const uint8_t> frame);

 private:
  std::array<uint64_t, 2> recent_{};  // all that the hash of a frame of 38 bytes or more depends on
  FrameHash of_recent_;
};

/// The Toeplitz hash of up to 12 bytes with the key that is built into the design.
uint32_t toeplitz(std::span<const uint8_t> bytes);

/// One table for each port; the queue is entry (tdest & app mask) + (hash & RSS mask). Nothing in this design sets
/// tdest.
class RxQueueMap {
 public:
  RxQueueMap(unsigned ports, unsigned log2_table, unsigned queues);

  uint16_t queue(unsigned port, uint32_t hash) const {
    const uint32_t index = (hash & ports_[port].rss_mask) & ((1u << log2_table_) - 1);
    return static_cast<uint16_t>(table_[(size_t{port} << log2_table_) + index] & queue_mask_);
  }

  uint32_t read_table(uint32_t entry) const { return entry < table_.size() ? table_[entry] : 0; }
  bool write_table(uint32_t entry, uint32_t value);
  /// `offset` is from the start of the port's registers in the block.
  uint32_t read(unsigned port, uint32_t offset, uint32_t table_offset) const;
  bool write(unsigned port, uint32_t offset, uint32_t value);
  void reset();

 private:
  struct Port {
    uint32_t rss_mask = 0, app_mask = 0;
  };
  std::vector<Port> ports_;
  std::vector<uint32_t> table_;
  unsigned log2_table_;
  uint32_t queue_mask_, mask_bits_;
};

}  // namespace mqnic::card
