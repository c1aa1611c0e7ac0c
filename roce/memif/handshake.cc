#include "memif/handshake.h"

#include <numeric>

namespace uroce::memif {
namespace {

// Descriptors are read as two words, so rings must be aligned; those of usual clients are.
constexpr uint32_t kRingAlignment = 16;

Handshake::Outcome refuse(const std::string& why) { return {Handshake::Step::kRefuse, make_disconnect(why), 0, why}; }

unsigned descriptors_of(MessageType type) {
  return type == MessageType::kAddRegion || type == MessageType::kAddRing ? 1 : 0;
}

}  // namespace

MessageBytes Handshake::hello() const {
  return make_hello({.name = "uroce", .max_region = kMaxRegions - 1, .max_log2_slots = kMaxLog2Slots});
}

Handshake::Outcome Handshake::on_message(std::span<const uint8_t> bytes, unsigned descriptors) {
  if (bytes.size() != kMessageBytes) return refuse("message of wrong size");
  const auto message = bytes.first<kMessageBytes>();
  const MessageType type = type_of(message);
  if (type == MessageType::kDisconnect) return {Step::kLeave, {}, 0, ""};
  if (descriptors != descriptors_of(type)) return refuse("wrong number of file descriptors");
  if ((type == MessageType::kInit) != (phase_ == Phase::kHello) || phase_ == Phase::kConnected) {
    return refuse("unexpected message");
  }
  switch (type) {
    case MessageType::kInit:
      return on_init(read_init(message));
    case MessageType::kAddRegion:
      return on_add_region(read_add_region(message));
    case MessageType::kAddRing:
      return on_add_ring(read_add_ring(message));
    case MessageType::kConnect:
      return on_connect();
    default:
      return refuse("unexpected message");
  }
}

Handshake::Outcome Handshake::on_init(const Init& init) {
  if (init.version != kVersion) return refuse("incompatible memif version");
  if (init.id != 0) return refuse("there is interface 0 only");
  if (init.mode != 0) return refuse("only Ethernet mode is supported");
  phase_ = Phase::kSetup;
  return {Step::kAnswer, make_ack(), 0, ""};
}

Handshake::Outcome Handshake::on_add_region(const AddRegion& region) {
  if (region.index != region_bytes_.size() || region.index >= kMaxRegions) return refuse("invalid region index");
  const uint64_t before = std::accumulate(region_bytes_.begin(), region_bytes_.end(), uint64_t{0});
  if (region.bytes == 0 || region.bytes > kMaxSharedBytes - before) return refuse("invalid region size");
  region_bytes_.push_back(region.bytes);
  return {Step::kMapRegion, make_ack(), region.bytes, ""};
}

Handshake::Outcome Handshake::on_add_ring(const AddRing& ring) {
  auto& place = rings_[(ring.flags & kRingToServer) != 0 ? 0 : 1];
  if (ring.index != 0 || place) return refuse("invalid ring index");
  if (ring.log2_slots > kMaxLog2Slots) return refuse("invalid ring size");
  if (ring.private_header_bytes != 0) return refuse("private headers are not supported");
  place = RingPlace{ring.region, ring.offset, ring.log2_slots};
  return {Step::kAnswer, make_ack(), 0, ""};
}

Handshake::Outcome Handshake::on_connect() {
  for (const auto& ring : rings_) {
    if (!ring) return refuse("a ring is missing");
    if (ring->region >= region_bytes_.size()) return refuse("a ring is in no region");
    const uint64_t bytes = region_bytes_[ring->region];
    if (ring->offset % kRingAlignment != 0 || ring->offset > bytes || ring->bytes() > bytes - ring->offset) {
      return refuse("a ring is not inside its region");
    }
  }
  const uint64_t first = ring_to_server().offset;
  const uint64_t second = ring_to_client().offset;
  const bool apart = first + ring_to_server().bytes() <= second || second + ring_to_client().bytes() <= first;
  if (ring_to_server().region == ring_to_client().region && !apart) return refuse("the rings overlap");
  phase_ = Phase::kConnected;
  return {Step::kConnect, make_connected(interface_), 0, ""};
}

}  // namespace uroce::memif
