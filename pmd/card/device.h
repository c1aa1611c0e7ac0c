// The registers of the device, which come before those of the interfaces: its block list, MSI-X and statistics.
#pragma once

#include <cstdint>
#include <vector>

#include "pmd/card/context.h"
#include "pmd/card/layout.h"

namespace mqnic::card {

class Device {
 public:
  Device(Context& context, const Layout& layout);

  /// `offset` is from the start of BAR0, or of an interface's space, where the same registers appear again.
  uint32_t read(uint32_t offset);
  bool write(uint32_t offset, uint32_t value);
  void reset();

 private:
  uint32_t read_list(uint32_t offset);
  uint32_t read_firmware(uint32_t offset) const;
  uint32_t read_interfaces(uint32_t offset) const;
  uint32_t read_statistics_block(uint32_t offset) const;
  uint32_t read_ptp(uint32_t offset);
  uint32_t read_clock(uint32_t offset) const;
  uint32_t* msix_word(uint32_t offset);

  Context* context_;
  const Layout* layout_;
  std::vector<uint32_t> msix_table_, msix_pending_;
};

}  // namespace mqnic::card
