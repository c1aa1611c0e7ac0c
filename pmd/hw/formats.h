// The formats that the card reads and writes in the host's memory. They are little-endian, which is the only byte order
// of hosts that this code supports.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace mqnic {

static_assert(std::endian::native == std::endian::little);

/// One piece of a packet. A packet is a block of 2^n of them (command::set_size); pieces that are not used have length
/// 0.
struct Descriptor {
  uint16_t reserved;
  uint16_t tx_checksum;  // in a block's first descriptor only; see tx_checksum_command
  uint32_t bytes;
  uint64_t address;
};
static_assert(sizeof(Descriptor) == 16 && offsetof(Descriptor, bytes) == 4 && offsetof(Descriptor, address) == 8);

/// Asks the card to store the inverted one's complement sum of the bytes from `start` to the end at `start + offset`.
/// The engine keeps seven bits of `start` (tx_engine.v), so 127 is the largest that works.
constexpr uint16_t tx_checksum_command(unsigned start, unsigned offset) {
  return static_cast<uint16_t>(0x8000u | (offset & 0x7f) << 8 | (start & 0xff));
}

inline constexpr uint8_t kPhaseBit = 0x80;

struct Completion {
  uint16_t queue;
  uint16_t index;  // of the descriptor block: the ring's consumer pointer
  uint16_t bytes;
  uint16_t reserved0;
  uint32_t timestamp_ns;
  uint16_t timestamp_s;
  uint16_t rx_checksum;  // one's complement sum from byte 14 to the end, not inverted
  uint32_t rx_hash;
  uint8_t hash_type;  // kHashIpv4 and kHashTcp or kHashUdp
  uint8_t port;
  uint8_t reserved1[9];
  uint8_t phase;  // kPhaseBit
};
static_assert(sizeof(Completion) == 32 && offsetof(Completion, timestamp_ns) == 8 &&
              offsetof(Completion, rx_hash) == 0x10);
static_assert(offsetof(Completion, hash_type) == 0x14 && offsetof(Completion, phase) == 0x1f);

inline constexpr uint8_t kHashIpv4 = 1 << 0, kHashTcp = 1 << 2, kHashUdp = 1 << 3;

struct Event {
  uint16_t type;    // kEventCompletion
  uint16_t source;  // the CQ
  uint8_t reserved[27];
  uint8_t phase;  // kPhaseBit
};
static_assert(sizeof(Event) == 32 && offsetof(Event, phase) == 0x1f);
inline constexpr uint16_t kEventCompletion = 0;

/// The card writes phase 1 on its first lap, 0 on its second, and so on: an entry is new when its phase says so, and no
/// register has to be read. `consumer` runs freely, `entries` is a power of two. The ring has to be zeroed first.
constexpr bool is_new(uint8_t phase, uint32_t consumer, uint32_t entries) {
  return ((phase & kPhaseBit) != 0) != ((consumer & entries) != 0);
}

}  // namespace mqnic
