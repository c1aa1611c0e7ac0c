#include "pmd/card/queue_manager.h"

#include <algorithm>
#include <bit>

#include "pmd/hw/formats.h"
#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace {

// Commands, by their fixed upper bits.
constexpr uint32_t kCommandVf = 0x8001, kCommandSize = 0x8002, kCommandProducer = 0x8080, kCommandConsumer = 0x8090,
                   kCommandConsumerArm = 0x8091;
constexpr uint32_t kCommandTarget = 0xc0, kCommandEnable = 0x400001, kCommandArm = 0x400002;

/// The registers have as many bits for a queue number as the number of queues needs.
uint16_t mask_for(unsigned count) { return static_cast<uint16_t>(std::bit_ceil(count) - 1); }

/// The low 12 bits of a base address do not exist, because rings are aligned to 4 KiB.
bool write_base(uint64_t& base, bool enabled, uint32_t offset, uint32_t value) {
  if (enabled) return false;
  if (offset == ring_register::kBaseL) {
    base = (base & ~uint64_t{0xffffffffu}) | (value & ~(kRingBaseAlignment - 1));
    return (value & (kRingBaseAlignment - 1)) == 0;
  }
  base = (base & 0xffffffffu) | uint64_t{value} << 32;
  return true;
}

template <typename Queues>
void list_enabled(const Queues& queues, std::vector<uint16_t>& list) {
  list.clear();
  for (size_t i = 0; i < queues.size(); ++i) {
    if (queues[i].enabled) list.push_back(static_cast<uint16_t>(i));
  }
}

}  // namespace

RingManager::RingManager(unsigned count, unsigned completion_queues, unsigned log2_block_max)
    : count_(count),
      queues_(count),
      completion_mask_(mask_for(completion_queues)),
      log2_block_max_(static_cast<uint8_t>(log2_block_max)) {
  enabled_.reserve(count);
}

uint32_t RingManager::read(size_t index, uint32_t offset) const {
  const Queue& queue = queues_[index];
  switch (offset) {
    case ring_register::kBaseL:
      return static_cast<uint32_t>(queue.base);
    case ring_register::kBaseH:
      return static_cast<uint32_t>(queue.base >> 32);
    case ring_register::kControlStatus:
      // "Active" means that an operation is in flight; in the model every operation is over before a register can be
      // read.
      return queue.enabled ? ring_register::kEnabled : 0;
    case ring_register::kSizeCqn:
      return queue.completion_queue | uint32_t{queue.log2_size} << 24 | uint32_t{queue.log2_block} << 28;
    case ring_register::kPointers:
      return queue.producer | uint32_t{queue.consumer} << 16;
    default:
      return 0;
  }
}

QueueWrite RingManager::write(size_t index, uint32_t offset, uint32_t value) {
  Queue& queue = queues_[index];
  QueueWrite outcome;
  if (offset == ring_register::kBaseL || offset == ring_register::kBaseH) {
    outcome.accepted = write_base(queue.base, queue.enabled, offset, value);
  } else if (offset <= ring_register::kPointers) {
    outcome = command(queue, value);
    if (outcome.enable_changed) list_enabled(queues_, enabled_);
  }
  return outcome;
}

QueueWrite RingManager::command(Queue& queue, uint32_t value) {
  QueueWrite outcome;
  outcome.accepted = true;
  if (value >> 16 == kCommandProducer) {
    queue.producer = static_cast<uint16_t>(value);
    outcome.doorbell = queue.enabled;
  } else if (value >> 8 == kCommandEnable) {
    const bool enable = (value & 1) != 0;
    outcome.enable_changed = queue.enabled != enable;
    queue.enabled = enable;
  } else if (value >> 16 == kCommandVf) {
    // Accepted without effect, because the RTL does not implement it either.
  } else if (value >> 16 == kCommandSize && !queue.enabled) {
    queue.log2_size = value & 0xf;
    queue.log2_block = std::min<uint8_t>(value >> 8 & 3, log2_block_max_);  // two bits of register
  } else if (value >> 24 == kCommandTarget && !queue.enabled) {
    queue.completion_queue = static_cast<uint16_t>(value & completion_mask_);
  } else if (value >> 16 == kCommandConsumer && !queue.enabled) {
    queue.consumer = static_cast<uint16_t>(value);
  } else {
    outcome.accepted = false;
  }
  return outcome;
}

CompletionManager::CompletionManager(unsigned count, unsigned targets)
    : count_(count), queues_(count), target_mask_(mask_for(targets)) {
  enabled_.reserve(count);
}

uint32_t CompletionManager::read(size_t index, uint32_t offset) const {
  const Queue& queue = queues_[index];
  switch (offset) {
    case cq_register::kBaseL:
      return static_cast<uint32_t>(queue.base);
    case cq_register::kBaseH:
      return static_cast<uint32_t>(queue.base >> 32);
    case cq_register::kControlStatus:
      // The "continuous" bit reads 0: cpl_queue_manager.v has the bit, but no command that sets it.
      return queue.target | (queue.enabled ? cq_register::kEnabled : 0) | (queue.armed ? cq_register::kArmed : 0) |
             uint32_t{queue.log2_size} << 28;
    case cq_register::kPointers:
      return queue.producer | uint32_t{queue.consumer} << 16;
    default:
      return 0;
  }
}

QueueWrite CompletionManager::write(size_t index, uint32_t offset, uint32_t value) {
  Queue& queue = queues_[index];
  QueueWrite outcome;
  if (offset == cq_register::kBaseL || offset == cq_register::kBaseH) {
    outcome.accepted = write_base(queue.base, queue.enabled, offset, value);
  } else if (offset <= cq_register::kPointers) {
    outcome = command(queue, value);
    if (outcome.enable_changed) list_enabled(queues_, enabled_);
  }
  return outcome;
}

QueueWrite CompletionManager::command(Queue& queue, uint32_t value) {
  QueueWrite outcome;
  outcome.accepted = true;
  if (value >> 16 == kCommandConsumer) {
    queue.consumer = static_cast<uint16_t>(value);
  } else if (value >> 16 == kCommandConsumerArm) {
    queue.consumer = static_cast<uint16_t>(value);
    arm(queue, outcome);
  } else if (value >> 8 == kCommandArm) {
    queue.armed = false;
    if ((value & 1) != 0) arm(queue, outcome);
  } else if (value >> 8 == kCommandEnable) {
    const bool enable = (value & 1) != 0;
    outcome.enable_changed = queue.enabled != enable;
    queue.enabled = enable;
  } else if (value >> 16 == kCommandVf) {
    // Accepted without effect, as for rings.
  } else if (value >> 16 == kCommandSize && !queue.enabled) {
    queue.log2_size = value & 0xf;
  } else if (value >> 24 == kCommandTarget && !queue.enabled) {
    queue.target = static_cast<uint16_t>(value & target_mask_);
  } else if (value >> 16 == kCommandProducer && !queue.enabled) {
    queue.producer = static_cast<uint16_t>(value);
  } else {
    outcome.accepted = false;
  }
  return outcome;
}

/// Arming a queue that is not empty causes the event at once, and leaves the queue disarmed.
void CompletionManager::arm(Queue& queue, QueueWrite& outcome) {
  queue.armed = true;
  if (!queue.enabled || queue.producer == queue.consumer) return;
  queue.armed = false;
  outcome.event = true;
  outcome.target = queue.target;
}

}  // namespace mqnic::card
