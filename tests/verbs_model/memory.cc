#include "verbs_model/memory.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/random.h"

namespace uroce::model {

namespace {

struct Bytes {
  std::array<uint8_t, kSourceBytes> used;
  std::array<uint8_t, kSourceBytes> kept;
};

Bytes make_bytes(uint64_t seed) {
  Bytes bytes;
  SeededRandom random(seed);
  for (uint8_t& b : bytes.used) b = static_cast<uint8_t>(random.next_u32());
  bytes.kept = bytes.used;
  return bytes;
}

Bytes& source_bytes() {
  static Bytes bytes = make_bytes(11);
  return bytes;
}

}  // namespace

const uint8_t* Memory::source() { return source_bytes().used.data(); }

bool Memory::source_intact() { return source_bytes().used == source_bytes().kept; }

const uint8_t* Memory::first_target() {
  static const Bytes bytes = make_bytes(22);
  return bytes.kept.data();
}

Memory::Memory(size_t endpoints) {
  for (size_t i = 0; i < endpoints; i++) {
    endpoints_.push_back(std::make_unique<One>());
    endpoints_.back()->used = kLandingBytes;
  }
  prepare();
}

void Memory::prepare() {
  for (const auto& one : endpoints_) {
    std::memset(one->words, 0, sizeof one->words);
    std::memcpy(one->target, first_target(), kTargetBytes);
    std::memset(one->landing, kCanary, one->used + kGuard);
    std::memset(one->frozen, kCanary, one->used + kGuard);
    one->used = 0;
  }
}

uint8_t* Memory::start(unsigned endpoint, Region region) const {
  switch (region) {
    case Region::kSource:
      return source_bytes().used.data();
    case Region::kLanding:
      return landing(endpoint);
    case Region::kWords:
      return reinterpret_cast<uint8_t*>(words(endpoint));
    default:
      return target(endpoint);
  }
}

uint32_t Memory::size(Region region) {
  switch (region) {
    case Region::kSource:
      return kSourceBytes;
    case Region::kLanding:
      return kLandingBytes;
    case Region::kWords:
      return kWords * 8;
    default:
      return kTargetBytes;
  }
}

void Memory::freeze(unsigned endpoint, uint32_t offset, uint32_t bytes) {
  One& one = *endpoints_[endpoint];
  std::memcpy(one.frozen + offset, one.landing + offset, bytes);
}

uint32_t Memory::first_difference(unsigned endpoint) const {
  const One& one = *endpoints_[endpoint];
  const uint32_t bytes = one.used + kGuard;
  if (std::memcmp(one.landing, one.frozen, bytes) == 0) return kLandingBytes;
  return static_cast<uint32_t>(std::mismatch(one.landing, one.landing + bytes, one.frozen).first - one.landing);
}

}  // namespace uroce::model
