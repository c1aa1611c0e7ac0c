// A client's side, byte by byte: messages and shared memory.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "memif/handshake.h"
#include "memif/memory.h"

namespace uroce::memif::test {

/// 128 bytes that begin like this.
inline std::vector<uint8_t> message(std::initializer_list<unsigned> begin) {
  std::vector<uint8_t> bytes(kMessageBytes);
  size_t at = 0;
  for (const unsigned byte : begin) bytes[at++] = static_cast<uint8_t>(byte);
  return bytes;
}

inline std::vector<uint8_t> init() { return message({3, 0, 0x00, 0x02}); }
inline std::vector<uint8_t> add_region(unsigned index, uint64_t bytes) {
  std::vector<uint8_t> all = message({4, 0, index, 0});
  for (unsigned i = 0; i < 8; i++) all[4 + i] = static_cast<uint8_t>(bytes >> (8 * i));
  return all;
}
/// log2 of the slots in the last byte but two, as on the wire.
inline std::vector<uint8_t> add_ring(bool to_server, uint32_t offset, unsigned log2, unsigned region = 0) {
  return message({5, 0, to_server ? 1u : 0u, 0, 0, 0, region & 0xff, region >> 8, offset & 0xff, offset >> 8 & 0xff,
                  offset >> 16 & 0xff, offset >> 24, log2, 0, 0});
}
inline std::vector<uint8_t> connect() { return message({6, 0}); }
inline std::vector<uint8_t> disconnect() { return message({8, 0}); }

/// Memory of a client: both rings, of 2^log2 slots, and a buffer of kBuffer bytes for each slot.
struct ClientMemory {
  static constexpr uint32_t kBuffer = 2048;

  explicit ClientMemory(unsigned log2_slots = 2, int seals = F_SEAL_SHRINK) : log2(log2_slots) {
    file = UniqueFd(memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    [[maybe_unused]] int rc = ftruncate(file.get(), static_cast<off_t>(bytes()));
    if (seals != 0) rc = fcntl(file.get(), F_ADD_SEALS, seals);
    base = static_cast<uint8_t*>(mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    write_cookies();
    for (const bool to_server : {true, false}) {
      for (uint32_t slot = 0; slot < slots(); slot++) describe(to_server, slot, kBuffer);
    }
  }
  ~ClientMemory() { munmap(base, bytes()); }
  ClientMemory(const ClientMemory&) = delete;
  ClientMemory& operator=(const ClientMemory&) = delete;

  uint32_t slots() const { return 1u << log2; }
  uint32_t ring_bytes() const { return 128 + 16 * slots(); }
  uint64_t bytes() const { return 2 * ring_bytes() + uint64_t{2} * slots() * kBuffer; }
  uint32_t ring(bool to_server) const { return to_server ? 0 : ring_bytes(); }
  uint32_t buffer(bool to_server, uint32_t slot) const {
    return 2 * ring_bytes() + ((to_server ? 0 : slots()) + (slot & (slots() - 1))) * kBuffer;
  }
  uint8_t* slot(bool to_server, uint32_t number) const {
    return base + ring(to_server) + 128 + 16 * (number & (slots() - 1));
  }

  void write_cookies() {
    const uint32_t cookie = 0x03E31F20;
    for (const bool to_server : {true, false}) std::memcpy(base + ring(to_server), &cookie, sizeof cookie);
  }
  void describe(bool to_server, uint32_t number, uint32_t length, uint16_t flags = 0, uint16_t region = 0) {
    describe_at(to_server, number, length, buffer(to_server, number), flags, region);
  }
  void describe_at(bool to_server, uint32_t number, uint32_t length, uint32_t offset, uint16_t flags = 0,
                   uint16_t region = 0) {
    uint8_t* const at = slot(to_server, number);
    std::memcpy(at, &flags, 2);
    std::memcpy(at + 2, &region, 2);
    std::memcpy(at + 4, &length, 4);
    std::memcpy(at + 8, &offset, 4);
  }
  uint32_t length(bool to_server, uint32_t number) const { return read<uint32_t>(slot(to_server, number) + 4); }
  uint16_t flags(bool to_server, uint32_t number) const { return read<uint16_t>(slot(to_server, number)); }

  void set_head(bool to_server, uint16_t head) { std::memcpy(base + ring(to_server) + 6, &head, 2); }
  uint16_t tail(bool to_server) const { return read<uint16_t>(base + ring(to_server) + 64); }

  template <typename T>
  static T read(const uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  unsigned log2;
  UniqueFd file;
  uint8_t* base = nullptr;
};

}  // namespace uroce::memif::test
