// Memory of one end that its peer writes and reads, and the model of what it must hold: a WRITE or an atomic changes
// the model when it is posted.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "sim/testbed.h"

namespace uroce::oracle {

class TargetMemory {
 public:
  TargetMemory(const sim::Side& side, uint32_t bytes, SeededRandom& random);

  uint32_t size() const { return memory_.size; }
  uint32_t key() const { return memory_.key; }
  uint64_t addr(uint32_t offset) const { return memory_.addr(offset); }
  const sim::Buffer& memory() const { return memory_; }

  // The model.
  std::vector<uint8_t> expected(uint32_t offset, uint32_t bytes) const;
  void expect(uint32_t offset, const void* from, uint32_t bytes);

  // Both.
  uint8_t byte(uint32_t at) const { return memory_.data()[at]; }
  uint8_t expected_byte(uint32_t at) const { return model_[at]; }
  /// The first byte from `begin` on that is not what it must be.
  std::optional<uint32_t> find_difference(uint32_t begin = 0) const;
  /// From now on what it holds is what it must hold.
  void accept() { model_.assign(memory_.data(), memory_.data() + memory_.size); }

  /// In another engine.
  void register_again(const sim::Side& side) { side.register_again(memory_); }

 private:
  sim::Buffer memory_;
  std::vector<uint8_t> model_;
};

}  // namespace uroce::oracle
