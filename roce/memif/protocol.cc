#include "memif/protocol.h"

#include <algorithm>
#include <cstring>

namespace uroce::memif {
namespace {

// The fields follow the type without padding.
constexpr size_t kBodyAt = 2;
constexpr size_t kNameBytes = 32;
constexpr size_t kReasonBytes = 96;

template <typename T>
T read(std::span<const uint8_t, kMessageBytes> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + kBodyAt + at, sizeof value);
  return value;
}

template <typename T>
void write(MessageBytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + kBodyAt + at, &value, sizeof value);
}

/// Writes the text with a NUL at its end, cut if it is too long.
void write_text(MessageBytes& bytes, size_t at, const std::string& text, size_t room) {
  std::memcpy(bytes.data() + kBodyAt + at, text.data(), std::min(text.size(), room - 1));
}

MessageBytes make(MessageType type) {
  MessageBytes bytes{};
  std::memcpy(bytes.data(), &type, sizeof type);
  return bytes;
}

}  // namespace

MessageType type_of(std::span<const uint8_t, kMessageBytes> bytes) {
  MessageType type;
  std::memcpy(&type, bytes.data(), sizeof type);
  return type;
}

Init read_init(std::span<const uint8_t, kMessageBytes> bytes) {
  return {read<uint16_t>(bytes, 0), read<uint32_t>(bytes, 2), read<uint8_t>(bytes, 6)};
}

AddRegion read_add_region(std::span<const uint8_t, kMessageBytes> bytes) {
  return {read<uint16_t>(bytes, 0), read<uint64_t>(bytes, 2)};
}

AddRing read_add_ring(std::span<const uint8_t, kMessageBytes> bytes) {
  return {read<uint16_t>(bytes, 0), read<uint16_t>(bytes, 2), read<uint16_t>(bytes, 4),
          read<uint32_t>(bytes, 6), read<uint8_t>(bytes, 10), read<uint16_t>(bytes, 11)};
}

MessageBytes make_hello(const Hello& hello) {
  MessageBytes bytes = make(MessageType::kHello);
  write_text(bytes, 0, hello.name, kNameBytes);
  write(bytes, 32, kVersion);  // the lowest
  write(bytes, 34, kVersion);  // and the highest
  write(bytes, 36, hello.max_region);
  write(bytes, 38, hello.max_ring_to_client);
  write(bytes, 40, hello.max_ring_to_server);
  write(bytes, 42, hello.max_log2_slots);
  return bytes;
}

MessageBytes make_ack() { return make(MessageType::kAck); }

MessageBytes make_connected(const std::string& interface) {
  MessageBytes bytes = make(MessageType::kConnected);
  write_text(bytes, 0, interface, kNameBytes);
  return bytes;
}

MessageBytes make_disconnect(const std::string& why) {
  MessageBytes bytes = make(MessageType::kDisconnect);
  write_text(bytes, 4, why, kReasonBytes);  // after a code
  return bytes;
}

}  // namespace uroce::memif
