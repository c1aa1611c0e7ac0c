// The parts of a card, read once from its block lists, with all versions checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pmd/hw/bus.h"
#include "pmd/hw/failure.h"

namespace mqnic {

/// The queues of one kind. Offsets are in BAR0.
struct QueueArray {
  uint32_t offset = 0, count = 0, stride = 0;
  uint32_t at(uint32_t queue) const { return offset + queue * stride; }
};

struct PortDescription {
  uint32_t control = 0;   // BlockType::kPortControl
  uint32_t features = 0;  // port_control::kFeature*
  // Where this port's frames go (BlockType::kRxQueueMap). 0: the card has no map, all go to queue 0.
  uint32_t queue_map = 0;
  uint32_t queue_table = 0;
};

struct SchedulerDescription {
  uint32_t control = 0;  // BlockType::kSchedulerRoundRobin
  QueueArray channels;
};

struct InterfaceDescription {
  unsigned number = 0;
  uint32_t base = 0;
  uint32_t control = 0;   // BlockType::kInterfaceControl
  uint32_t features = 0;  // interface_control::k*
  uint32_t max_tx_frame_bytes = 0, max_rx_frame_bytes = 0;
  uint32_t tx_fifo_bytes = 0, rx_fifo_bytes = 0;
  QueueArray event_queues, completion_queues, tx_queues, rx_queues;
  uint32_t log2_queue_table = 0;
  uint32_t log2_block_max = 0;  // descriptors of a packet
  std::vector<PortDescription> ports;
  std::vector<SchedulerDescription> schedulers;  // one for each port, or one for all
};

struct CardDescription {
  uint32_t fpga_id = 0, firmware_id = 0, firmware_version = 0, board_id = 0, board_version = 0, build_date = 0;
  uint32_t git_hash = 0, release = 0;
  std::optional<uint32_t> ptp;  // BlockType::kPtp
  std::vector<InterfaceDescription> interfaces;
  std::vector<std::string> notes;  // parts of the card that are left out, and why
};

/// Reads the block lists. Nothing is written.
Failure describe_card(Bus& bus, CardDescription& out);

/// Fills in log2_block_max, which the card reveals only by clamping a size that is too large. TXQ 0 of each interface
/// must be disabled for that (see quiesce).
void read_block_sizes(Bus& bus, CardDescription& description);

}  // namespace mqnic
