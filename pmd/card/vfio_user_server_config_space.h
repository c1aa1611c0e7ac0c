// The PCI configuration space of the card, as seen over vfio-user: a header, BAR0, MSI-X, and PCI Express.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pmd/card/card.h"

namespace mqnic::card {

class PciConfigSpace {
 public:
  static constexpr size_t kBytes = 4096;  // of a PCI Express function; the card has no extended capabilities

  explicit PciConfigSpace(const CardConfig& config);

  /// Accesses must be within kBytes, which the caller checks. What is not writable keeps its value.
  void read(size_t offset, std::span<uint8_t> out) const;
  void write(size_t offset, std::span<const uint8_t> data);
  /// Forgets what was written.
  void reset() { bytes_ = initial_; }

 private:
  void add_express();
  void set(size_t offset, uint32_t value, size_t bytes, uint32_t writable = 0);

  std::array<uint8_t, kBytes> initial_{};
  std::array<uint8_t, kBytes> writable_{};
  std::array<uint8_t, kBytes> bytes_{};
};

}  // namespace mqnic::card
