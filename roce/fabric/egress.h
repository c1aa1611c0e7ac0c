// The queues in front of a port, and the choice of the one that sends next.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "fabric/frame.h"
#include "fabric/switch_config.h"

namespace uroce::fabric {

/// A frame that waits, and what is needed about it when it leaves.
struct QueuedFrame {
  FabricFrame frame;
  uint32_t next = 0;
  PortId ingress = 0;
  uint16_t l3_offset = 0;
  uint8_t ip_version = 0;
  uint8_t traffic_class = 0;
  uint8_t priority = 0;
};

/// The memory of all queues of a switch: linked lists in one array, addressed by index. It grows with the number of
/// frames, and never shrinks.
class FrameQueues {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit FrameQueues(uint32_t max_frames) : max_frames_(max_frames) {}
  /// Returns the index, or kNone when max_frames are queued.
  uint32_t take(const QueuedFrame& queued);
  void give_back(uint32_t index) {
    QueuedFrame& node = nodes_[index];
    ensure(static_cast<bool>(node.frame), "a place in the queues is given back once");
    node.frame = {};
    node.next = free_;
    free_ = index;
    used_--;
  }
  QueuedFrame& operator[](uint32_t index) { return nodes_[index]; }
  const QueuedFrame& operator[](uint32_t index) const { return nodes_[index]; }
  uint32_t used() const { return used_; }

 private:
  std::vector<QueuedFrame> nodes_;
  uint32_t max_frames_;
  uint32_t free_ = kNone;
  uint32_t used_ = 0;
};

/// Eight queues and their order: strict ones first, then deficit round robin by weight. In its turn a weighted queue
/// sends as much as its weight and its saved deficit allow; a queue that runs empty loses the deficit, a paused one
/// keeps it.
class EgressScheduler {
 public:
  EgressScheduler(const PriorityConfigs& priorities, uint32_t quantum_bytes);

  void push(FrameQueues& queues, unsigned priority, uint32_t index);
  /// The priority whose first frame is to leave, when those in `blocked` (bits) may not; kPriorities when there is
  /// none. Must be followed by `pop` of that priority.
  unsigned pick(const FrameQueues& queues, uint8_t blocked);
  /// Takes the first frame out of its queue. Returns its node, which the caller has to give back.
  uint32_t pop(FrameQueues& queues, unsigned priority);

  bool empty() const { return waiting_ == 0; }
  /// The priorities that hold frames, as bits.
  uint8_t waiting() const { return waiting_; }
  uint64_t bytes(unsigned priority) const { return queues_[priority].bytes; }

 private:
  struct Queue {
    uint32_t head = FrameQueues::kNone;
    uint32_t tail = FrameQueues::kNone;
    uint64_t bytes = 0;
  };

  std::array<Queue, kPriorities> queues_;
  std::array<uint64_t, kPriorities> deficit_{};
  std::array<uint64_t, kPriorities> quantum_{};
  uint8_t waiting_ = 0;
  uint8_t strict_ = 0;
  uint8_t current_ = kPriorities - 1;  // so that priority 0 has the first turn
};

}  // namespace uroce::fabric
