// Doorbells of the card model in shared memory, which the driver writes instead of sending a message to another
// process.
//
// A command register cannot be shared memory, as the last write would hide the ones before it. So the model has words
// beside the registers, one for each queue, that take only pointer commands; the card looks at those of enabled queues
// when it runs, and before it answers any register access. A word that was never written is 0, which is not a command.
//
// Over vfio-user this is a region of its own (region 9, after the nine of PCI), so that a driver that does not know it
// finds all registers where it expects them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mqnic::doorbell_page {

inline constexpr size_t kQueuesMax = 8192;  // of each kind, of one interface
inline constexpr size_t kKinds = 4;         // Bus::QueueKind: TX, RX, completion, event
inline constexpr size_t kInterfaceBytes = kKinds * kQueuesMax * sizeof(uint32_t);

constexpr size_t word_index(unsigned interface, unsigned kind, unsigned queue) {
  return (size_t{interface} * kKinds + kind) * kQueuesMax + queue;
}
constexpr size_t bytes(unsigned interfaces) { return interfaces * kInterfaceBytes; }

/// The vfio-user region, and its type in VFIO_REGION_INFO_CAP_TYPE.
inline constexpr uint32_t kRegionIndex = 9;
inline constexpr uint32_t kRegionType = 0x80000000u | 0x1234u;  // VFIO: a PCI vendor's own type
inline constexpr uint32_t kRegionSubtype = 1;

}  // namespace mqnic::doorbell_page
