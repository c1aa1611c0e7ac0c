// Where the registers are in BAR0. They are computed as in the real design, so that offsets are like those of a shipped
// build: for a 16 MiB BAR and one interface the interface's list is at 0x80000 and its TX queues at 0x400000.
#pragma once

#include <cstdint>

#include "pmd/card/card.h"

namespace mqnic::card {

// Windows of the device's own registers.
inline constexpr uint32_t kCsrWindowBytes = 0x10000;
inline constexpr uint32_t kMsixWindow = 0x10000, kStatsWindow = 0x20000;
inline constexpr uint32_t kStatsCount = 4096, kStatsStride = 8;

// Blocks of the device's list.
inline constexpr uint32_t kFirmwareBlock = 0x00, kIrqBlock = 0x40, kInterfacesBlock = 0x50, kAppBlock = 0x70,
                          kStatsBlock = 0x80, kPtpBlock = 0x100, kClockBlock = 0x200;

// Blocks of an interface's list, from its start.
inline constexpr uint32_t kControlBlock = 0x00, kEventBlock = 0x40, kCompletionBlock = 0x60, kTxBlock = 0x80,
                          kRxBlock = 0xa0, kQueueMapBlock = 0x100, kPortBlocks = 0x1000, kBlockStride = 0x1000;
// The lists of a port and of a scheduler block begin after the header of that block.
inline constexpr uint32_t kSubListOffset = 0x10;

struct Layout {
  /// Throws std::invalid_argument when the build cannot exist because something does not fit its window.
  explicit Layout(const CardConfig& config);

  uint32_t interface_stride = 0;
  uint32_t csr_bytes = 0;  // size of the device's window in every interface; also the offset of the interface's list
  uint32_t table_offset = 0, event_offset = 0, completion_offset = 0, tx_offset = 0, rx_offset = 0;
  uint32_t scheduler_offset = 0, scheduler_stride = 0;
};

}  // namespace mqnic::card
