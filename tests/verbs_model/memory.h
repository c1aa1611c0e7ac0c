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
  /// For another program.
  void prepare();

  static const uint8_t* source();
  static bool source_intact();
  /// What the target holds before the first step.
  static const uint8_t* first_target();

  uint8_t* target(unsigned endpoint) const { return endpoints_[endpoint]->target; }
  uint8_t* landing(unsigned endpoint) const { return endpoints_[endpoint]->landing; }
  uint64_t* words(unsigned endpoint) const { return endpoints_[endpoint]->words; }
  /// Where a region begins, and how much it covers.
  uint8_t* start(unsigned endpoint, Region region) const;
  static uint32_t size(Region region);

  /// Only canaries.
  static bool untouched(const uint8_t* bytes, uint32_t count) {
    return count == 0 || (bytes[0] == kCanary && std::memcmp(bytes, bytes + 1, count - 1) == 0);
  }
  /// Bytes before `end` are about to be used. Behind the last one, only so many are looked at.
  void use(unsigned endpoint, uint32_t end) {
    One& one = *endpoints_[endpoint];
    one.used = end > one.used && end <= kLandingBytes ? end : one.used;
  }
  /// What the program was given: it stays as it is from now on.
  void freeze(unsigned endpoint, uint32_t offset, uint32_t bytes);
  /// Offset of the first byte of the landing that is neither frozen nor untouched, or kLandingBytes.
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
