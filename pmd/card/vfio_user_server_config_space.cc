#include "pmd/card/vfio_user_server_config_space.h"

#include <algorithm>

#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace {

constexpr uint32_t kMsixCapability = 0x40;
constexpr uint32_t kExpressCapability = 0x70;  // where FPGAs of the card's kind have it
constexpr uint32_t kStatusHasCapabilities = 1u << 4;
constexpr uint32_t kCommandWritable = 0x0546;  // memory, bus master, parity, SERR, INTx off
constexpr uint32_t kBar64Bit = 0x4;
constexpr uint32_t kMsixControlWritable = 0xc000;  // enable, mask all

}  // namespace

PciConfigSpace::PciConfigSpace(const CardConfig& config) {
  set(0x00, kPciVendorCorundum, 2);
  set(0x02, kPciDevice, 2);
  set(0x04, 0, 2, kCommandWritable);
  set(0x06, kStatusHasCapabilities, 2);
  set(0x08, 0, 1);         // revision
  set(0x09, 0x020000, 3);  // Ethernet controller
  set(0x0c, 0, 1, 0xff);   // cache line
  set(0x0d, 0, 1, 0xff);   // latency timer
  const uint64_t bar_mask = ~(config.bar_bytes - 1);
  set(0x10, kBar64Bit, 4, static_cast<uint32_t>(bar_mask));
  set(0x14, 0, 4, static_cast<uint32_t>(bar_mask >> 32));
  set(0x2c, config.board_id >> 16, 2);
  set(0x2e, config.board_id & 0xffff, 2);
  set(0x34, kMsixCapability, 1);
  set(0x3c, 0, 1, 0xff);  // interrupt line; there is no pin
  set(kMsixCapability, 0x11, 1);
  set(kMsixCapability + 1, kExpressCapability, 1);
  set(kMsixCapability + 2, config.interrupts - 1, 2, kMsixControlWritable);
  set(kMsixCapability + 4, kMsixTableOffset, 4);  // in BAR0
  set(kMsixCapability + 8, kMsixPbaOffset, 4);
  add_express();
  bytes_ = initial_;
}

/// A PCI Express endpoint as boards of 100G are built: sixteen lanes of 8 GT/s, which are all in use. It has no
/// function-level reset and no ASPM. The host's settings are kept, and change nothing here.
void PciConfigSpace::add_express() {
  constexpr uint32_t kAt = kExpressCapability;
  constexpr uint32_t kGen3 = 3, kSixteenLanes = 16 << 4;
  set(kAt, 0x10, 1);           // the last capability of the list
  set(kAt + 0x02, 0x0002, 2);  // version 2, endpoint
  set(kAt + 0x04, 0x8023, 4);  // payloads of up to 1024 bytes, extended tags, errors by role
  set(kAt + 0x08, 0x2810, 2,
      0x79ff);  // as after power-on: payloads of 128 bytes, reads of 512, relaxed order, no snoop
  set(kAt + 0x0c, kGen3 | kSixteenLanes | 1u << 22, 4);  // bit 22: ASPM may be left out
  set(kAt + 0x10, 0, 2, 0x00cb);
  set(kAt + 0x12, kGen3 | kSixteenLanes | 1u << 12, 2);  // the slot's reference clock
  set(kAt + 0x24, 0x12, 4);                              // completion time-outs: range B, or none
  set(kAt + 0x28, 0, 2, 0x001f);
  set(kAt + 0x2c, 0x0e, 4);  // 2.5, 5 and 8 GT/s
  set(kAt + 0x30, kGen3, 2, 0x003f);
  set(kAt + 0x32, 0x1e, 2);  // equalised, in all three phases
}

void PciConfigSpace::set(size_t offset, uint32_t value, size_t bytes, uint32_t writable) {
  for (size_t i = 0; i < bytes; i++) {
    initial_[offset + i] = static_cast<uint8_t>(value >> (8 * i));
    writable_[offset + i] = static_cast<uint8_t>(writable >> (8 * i));
  }
}

void PciConfigSpace::read(size_t offset, std::span<uint8_t> out) const {
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
}

void PciConfigSpace::write(size_t offset, std::span<const uint8_t> data) {
  for (size_t i = 0; i < data.size(); i++) {
    uint8_t& byte = bytes_[offset + i];
    const uint8_t mask = writable_[offset + i];
    byte = static_cast<uint8_t>((byte & ~mask) | (data[i] & mask));
  }
}

}  // namespace mqnic::card
