// The memory of a program's endpoints. The source is the same bytes for all of them, and never changes.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "verbs_model/program.h"

namespace uroce::model {

class Memory {
 public:
  static constexpr uint8_t kCanary = 0xC5;

  explicit Memory(size_t endpoints);
  /// Resets it for another program.
  void prepare();

  static const uint8_t* source();
  static bool source_intact();
  /// The target's content before the first step.
  static const uint8_t* first_target();

  uint8_t* target(unsigned endpoint) const { return endpoints_[endpoint]->target; }
  uint8_t* landing(unsigned endpoint) const { return endpoints_[endpoint]->landing; }
  uint64_t* words(unsigned endpoint) const { return endpoints_[endpoint]->words; }
  /// A region's start and size.
  uint8_t* start(unsigned endpoint, Region region) const;
  static uint32_t size(Region region);

  /// Whether the bytes are still canaries.
  static bool untouched(const uint8_t* bytes, uint32_t count) {
    return count == 0 || (bytes[0] == kCanary && std::memcmp(bytes, bytes + 1, count - 1) == 0);
  }
  /// Notes that bytes before `end` may be used from now on. Only a few behind the last such byte are checked.
  void use(unsigned endpoint, uint32_t end) {
    One& one = *endpoints_[endpoint];
    one.used = end > one.used && end <= kLandingBytes ? end : one.used;
  }
  /// These bytes belong to the program, and must not change from now on.
  void freeze(unsigned endpoint, uint32_t offset, uint32_t bytes);
  /// Offset of the first byte of the landing that has changed since it was frozen or filled with canaries, or
  /// kLandingBytes.
  uint32_t first_difference(unsigned endpoint) const;

 private:
  static constexpr uint32_t kGuard = 512;
  struct One {
    alignas(64) uint64_t words[kWords];
    uint8_t target[kTargetBytes];
    uint8_t landing[kLandingBytes + kGuard];
    uint8_t frozen[kLandingBytes + kGuard];
    uint32_t used;  // of the landing, at most
  };
  std::vector<std::unique_ptr<One>> endpoints_;
};

}  // namespace uroce::model
