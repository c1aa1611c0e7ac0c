// The server's answers to the messages of a client, until they are connected. Knows no socket and no memory.
//
// The client is not trusted: a message of the wrong size, type, order or content, or with descriptors that do not
// belong to it, ends the connection with a reason.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memif/protocol.h"

namespace uroce::memif {

// Limits of what a client may bring.
inline constexpr uint8_t kMaxLog2Slots = 8;
inline constexpr uint16_t kMaxRegions = 4;
inline constexpr uint64_t kMaxSharedBytes = 64u << 20;  // enough for 256 slots of 64 KB in both directions, with rings

/// Where in a region a ring lies.
struct RingPlace {
  uint16_t region = 0;
  uint32_t offset = 0;
  uint8_t log2_slots = 0;

  uint64_t bytes() const { return kRingSlotsAt + (uint64_t{kDescriptorBytes} << log2_slots); }
};

class Handshake {
 public:
  enum class Step : uint8_t {
    kAnswer,     // send `reply`
    kMapRegion,  // map the next region of `bytes` from the one descriptor, then send `reply`
    kConnect,    // rings() are complete: look at them, then send `reply`
    kRefuse,     // send `reply` and close the connection
    kLeave,      // the client wants to leave
  };
  struct Outcome {
    Step step = Step::kAnswer;
    MessageBytes reply{};
    uint64_t bytes = 0;
    std::string why;  // the reason, for kRefuse
  };

  /// `interface` is the name that the client is told.
  explicit Handshake(std::string interface) : interface_(std::move(interface)) {}

  /// The first message, which the server sends.
  MessageBytes hello() const;
  /// Takes a message of the client, and the number of file descriptors that came with it.
  Outcome on_message(std::span<const uint8_t> bytes, unsigned descriptors);

  const RingPlace& ring_to_server() const { return *rings_[0]; }
  const RingPlace& ring_to_client() const { return *rings_[1]; }
  bool connected() const { return phase_ == Phase::kConnected; }

 private:
  enum class Phase : uint8_t { kHello, kSetup, kConnected };

  Outcome on_init(const Init& init);
  Outcome on_add_region(const AddRegion& region);
  Outcome on_add_ring(const AddRing& ring);
  Outcome on_connect();

  std::string interface_;
  Phase phase_ = Phase::kHello;
  std::vector<uint64_t> region_bytes_;
  std::array<std::optional<RingPlace>, 2> rings_;
};

}  // namespace uroce::memif
