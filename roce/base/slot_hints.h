// Where the numbers asked for last were found in a table whose numbers are permuted: undoing the permutation takes
// longer than a look at a guess.
#pragma once

#include <array>
#include <cstdint>

namespace uroce {

/// A hint may be wrong, or older than what is in its slot: the caller sees whether the slot has the number.
class SlotHints {
 public:
  /// Of no number yet: slot 0.
  uint32_t slot(uint32_t number) const { return slots_[place(number)]; }
  void note(uint32_t number, uint32_t slot) { slots_[place(number)] = slot; }

 private:
  static constexpr uint32_t kBits = 5;
  static uint32_t place(uint32_t number) { return number * 0x9E3779B1u >> (32 - kBits); }

  std::array<uint32_t, 1u << kBits> slots_{};
};

}  // namespace uroce
