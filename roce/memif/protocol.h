// The memif protocol, version 2.0: the messages over the socket, and the layout of shared memory.
//
// The client provides the memory. It connects to the server's SOCK_SEQPACKET socket and, after the server's HELLO,
// sends INIT, ADD_REGION (with the file descriptor of the memory), ADD_RING for each direction (with an eventfd) and
// CONNECT, each after the one before was acknowledged; the server's CONNECTED completes the handshake. Every message
// has 128 bytes, and numbers are in the machine's order, which is little endian on all that this runs on.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>

namespace uroce::memif {

static_assert(std::endian::native == std::endian::little,
              "memif has the machine's byte order, and ours is little endian");

inline constexpr uint32_t kMessageBytes = 128;
inline constexpr uint16_t kVersion = 0x0200;
inline constexpr uint32_t kCookie = 0x03E31F20;

using MessageBytes = std::array<uint8_t, kMessageBytes>;

enum class MessageType : uint16_t {
  kAck = 1,
  kHello = 2,
  kInit = 3,
  kAddRegion = 4,
  kAddRing = 5,
  kConnect = 6,
  kConnected = 7,
  kDisconnect = 8,
};

/// The type as the peer wrote it, which may be a number that is no type.
MessageType type_of(std::span<const uint8_t, kMessageBytes> bytes);

struct Init {
  uint16_t version = 0;
  uint32_t id = 0;
  uint8_t mode = 0;  // 0: Ethernet
};
struct AddRegion {
  uint16_t index = 0;
  uint64_t bytes = 0;
};
struct AddRing {
  uint16_t flags = 0;
  uint16_t index = 0;
  uint16_t region = 0;
  uint32_t offset = 0;
  uint8_t log2_slots = 0;
  uint16_t private_header_bytes = 0;
};
inline constexpr uint16_t kRingToServer = 1;  // AddRing::flags

Init read_init(std::span<const uint8_t, kMessageBytes> bytes);
AddRegion read_add_region(std::span<const uint8_t, kMessageBytes> bytes);
AddRing read_add_ring(std::span<const uint8_t, kMessageBytes> bytes);

struct Hello {
  std::string name;
  uint16_t max_region = 0;          // the highest index
  uint16_t max_ring_to_client = 0;  // likewise
  uint16_t max_ring_to_server = 0;
  uint8_t max_log2_slots = 0;
};
MessageBytes make_hello(const Hello& hello);
MessageBytes make_ack();
MessageBytes make_connected(const std::string& interface);
MessageBytes make_disconnect(const std::string& why);

// A ring: cookie, flags and head in the first cache line, tail in the second, then the descriptors.

inline constexpr uint32_t kRingCookieAt = 0;
inline constexpr uint32_t kRingFlagsAt = 4;
inline constexpr uint32_t kRingHeadAt = 6;
inline constexpr uint32_t kRingTailAt = 64;
inline constexpr uint32_t kRingSlotsAt = 128;
inline constexpr uint16_t kRingPolled = 1;  // flags: the reader of the ring wants no interrupts

inline constexpr uint32_t kDescriptorBytes = 16;
struct Descriptor {
  uint16_t flags = 0;
  uint16_t region = 0;
  uint32_t length = 0;
  uint32_t offset = 0;
};
inline constexpr uint16_t kDescriptorNext = 1;  // flags: the frame goes on in the next slot

}  // namespace uroce::memif
