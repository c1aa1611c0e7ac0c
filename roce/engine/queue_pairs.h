// The queue pairs of an engine, and what they share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/random.h"
#include "engine/qp_table.h"
#include "transport/qp.h"

namespace uroce {

class ObjectTables;
class Observer;
class ReorderPool;
class SharedReceiveQueue;
struct Counters;
struct EngineConfig;
struct QpInit;
struct TransportEnv;

class QueuePairs {
 public:
  static constexpr uint32_t kMtuMin = 256;  // of RoCE

  /// All of them outlive the queue pairs; what a queue pair uses is held in `objects`.
  QueuePairs(const EngineConfig& config, ObjectTables& objects, RandomSource& random, Counters& counters,
             Observer& observer);
  ~QueuePairs();
  QueuePairs(const QueuePairs&) = delete;
  QueuePairs& operator=(const QueuePairs&) = delete;

  /// nullptr: the table is full.
  Qp* create(const QpInit& init, void* user);
  void destroy(Qp& qp);
  /// To be called before the queue is destroyed: no message under way may use its receives any more.
  void forget_xrc_queue(const SharedReceiveQueue& queue);

  /// By number and by index.
  const QpTable& table() const { return table_; }
  uint32_t size() const { return table_.size(); }
  /// A block of numbers that no other engine with our addresses has. Nothing when all numbers are ours, or no block is
  /// left.
  std::optional<uint32_t> own_block() { return table_.own_block(); }
  /// Calls `f` for every live QP.
  template <typename F>
  void for_each(F&& f) const {
    table_.for_each(f);
  }
  /// The largest RoCE MTU (256..4096) whose packets fit the port's frames.
  uint32_t active_mtu_bytes() const { return active_mtu_; }
  /// The port carries frames of so many bytes from now on, no more than it was made for. Queue pairs that there are
  /// stay as they are.
  void set_frame_bytes(uint32_t bytes);
  /// The link speed, from which rates start; 0: unknown.
  void set_link_speed(uint64_t bits_per_second);
  /// Somebody wants to see the frames of everything (base/direct_copy.h).
  void frames_only(bool wanted);

 private:
  const uint32_t frame_most_;
  uint32_t active_mtu_;
  uint32_t max_frame_;  // of raw packets
  ObjectTables& objects_;
  const std::unique_ptr<ReorderPool> reorder_pool_;  // never null
  const std::unique_ptr<TransportEnv> env_;          // never null
  QpTable table_;
};

}  // namespace uroce
