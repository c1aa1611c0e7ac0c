// Sets up queues. Everything here is written through the bus and not through doorbells, because the order matters.
#pragma once

#include <cstdint>

#include "pmd/hw/bus.h"
#include "pmd/hw/registers.h"

namespace mqnic {

/// A TXQ or RXQ at `offset` in BAR0.
struct RingSetup {
  uint64_t base = 0;  // address for the card, 4 KiB aligned
  uint32_t log2_entries = 0;
  uint32_t log2_block = 0;
  uint32_t completion_queue = 0;
  uint16_t first = 0;  // both pointers at the beginning
};
/// Leaves the ring disabled and empty.
void configure_ring(Bus& bus, uint32_t offset, const RingSetup& setup);
void enable_ring(Bus& bus, uint32_t offset, bool on);
/// True while a ring that was disabled is still working. False also when the card is gone.
bool is_ring_active(Bus& bus, uint32_t offset);
/// The consumer pointer. A TX ring's is ahead of its completions by what the card has taken and not sent yet.
uint16_t ring_consumer(Bus& bus, uint32_t offset);

/// Configures a CQ or EQ at `offset` in BAR0, whose memory must be zeroed. `target` is the EQ of a CQ, or the interrupt
/// of an EQ. Leaves the queue enabled and not armed, with both pointers 0.
void configure_completion_queue(Bus& bus, uint32_t offset, uint64_t base, uint32_t log2_entries, uint32_t target);
void disable_completion_queue(Bus& bus, uint32_t offset);

}  // namespace mqnic
