// The PCI configuration space of the card, for whoever looks at it over vfio-user: a header, BAR0, and MSI-X.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pmd/card/card.h"

namespace mqnic::card {

class PciConfigSpace {
 public:
  static constexpr size_t kBytes = 256;

  explicit PciConfigSpace(const CardConfig& config);

  /// Within kBytes, which the caller has checked. What is not writable keeps its value.
  void read(size_t offset, std::span<uint8_t> out) const;
  void write(size_t offset, std::span<const uint8_t> data);
  /// What was written is forgotten.
  void reset() { bytes_ = initial_; }

 private:
  void set(size_t offset, uint32_t value, size_t bytes, uint32_t writable = 0);

  std::array<uint8_t, kBytes> initial_{};
  std::array<uint8_t, kBytes> writable_{};
  std::array<uint8_t, kBytes> bytes_{};
};

}  // namespace mqnic::card
