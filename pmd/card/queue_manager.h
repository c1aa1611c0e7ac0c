// Queue managers: the registers of TX, RX, completion and event queues, and the pointers behind them.
//
// What a command does in each state is as in the RTL (queue_manager.v, cpl_queue_manager.v): configuration is refused
// while a queue is enabled, enabling keeps the pointers, and doorbells reach the schedulers only while the queue is
// enabled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pmd/card/dma.h"
#include "pmd/hw/formats.h"

namespace mqnic::card {

/// The result of a register write.
struct QueueWrite {
  bool accepted = false;  // false: the register is unknown, or the write was refused in the queue's state
  bool doorbell = false;  // ring: the producer pointer was set while enabled
  bool enable_changed = false;
  bool event = false;   // completion and event queues: an event is due
  uint16_t target = 0;  // the EQ or interrupt of the event
};

/// TX and RX queues.
class RingManager {
 public:
  struct Queue {
    uint64_t base = 0;
    uint16_t producer = 0, consumer = 0;
    uint16_t completion_queue = 0;
    uint8_t log2_size = 0, log2_block = 0;
    bool enabled = false;

    bool empty() const { return producer == consumer; }
    uint64_t block_address() const {
      const uint32_t index = consumer & ((1u << log2_size) - 1);
      return base + (uint64_t{index} << (4 + log2_block));
    }
  };

  RingManager(unsigned count, unsigned completion_queues, unsigned log2_block_max);

  size_t count() const { return count_; }
  Queue& queue(size_t index) { return queues_[index]; }
  /// `offset` is from the queue's first register.
  uint32_t read(size_t index, uint32_t offset) const;
  QueueWrite write(size_t index, uint32_t offset, uint32_t value);
  /// Numbers of the enabled queues.
  const std::vector<uint16_t>& enabled() const { return enabled_; }

 private:
  QueueWrite command(Queue& queue, uint32_t value);

  size_t count_;  // size() of the vector would need a division
  std::vector<Queue> queues_;
  std::vector<uint16_t> enabled_;
  uint16_t completion_mask_;
  uint8_t log2_block_max_;
};

/// Completion and event queues.
class CompletionManager {
 public:
  static constexpr size_t kEntryBytes = sizeof(QueueEntry);

  enum class Result : uint8_t { kWritten, kFull, kOff, kNotMapped };
  struct Push {
    Result result;
    bool event = false;   // the queue was armed: an event is due
    uint16_t target = 0;  // the EQ or interrupt of the event
  };

  CompletionManager(unsigned count, unsigned targets);

  size_t count() const { return count_; }
  uint32_t read(size_t index, uint32_t offset) const;
  QueueWrite write(size_t index, uint32_t offset, uint32_t value);
  /// Writes an entry, and sets its phase bit.
  Push push(Dma& dma, size_t index, QueueEntry& entry) {
    if (index >= count_ || !queues_[index].enabled) return {Result::kOff};
    Queue& queue = queues_[index];
    const uint16_t used = static_cast<uint16_t>(queue.producer - queue.consumer);
    if (used >> queue.log2_size != 0) return {Result::kFull};

    const uint32_t slot = queue.producer & ((1u << queue.log2_size) - 1);
    const bool first_lap = (queue.producer >> queue.log2_size & 1) == 0;
    constexpr uint64_t kPhase = uint64_t{kPhaseBit} << 56;
    entry[3] = (entry[3] & ~kPhase) | (first_lap ? kPhase : 0);
    const bool written = dma.write_entry(queue.base + uint64_t{slot} * kEntryBytes, entry);
    ++queue.producer;

    Push push{written ? Result::kWritten : Result::kNotMapped};
    if (queue.armed) {
      queue.armed = false;
      push.event = true;
      push.target = queue.target;
    }
    return push;
  }
  const std::vector<uint16_t>& enabled() const { return enabled_; }

 private:
  struct Queue {
    uint64_t base = 0;
    uint16_t producer = 0, consumer = 0;
    uint16_t target = 0;
    uint8_t log2_size = 0;
    bool enabled = false, armed = false;
  };
  QueueWrite command(Queue& queue, uint32_t value);
  static void arm(Queue& queue, QueueWrite& outcome);

  size_t count_;  // size() of the vector would need a division
  std::vector<Queue> queues_;
  std::vector<uint16_t> enabled_;
  uint16_t target_mask_;
};

}  // namespace mqnic::card
