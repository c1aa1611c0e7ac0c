// The memory window of one end onto its target memory: bound there, used by the peer, and invalidated by either.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "oracle/target_memory.h"
#include "sim/testbed.h"
#include "uroce/work_request.h"

namespace uroce::oracle {

class MemoryWindow {
 public:
  bool bound() const { return state_ == State::kBound; }
  bool unbound() const { return state_ == State::kUnbound; }
  /// The peer may use that many bytes through it.
  bool admits(uint32_t bytes) const { return bound() && bytes <= bytes_; }
  uint32_t key() const { return key_; }
  uint32_t offset() const { return offset_; }  // in the target memory
  uint32_t bytes() const { return bytes_; }

  /// A new one in the engine of `side`. False: there is none.
  bool allocate(const sim::Side& side);
  /// Whatever was under way with it will not come to its end.
  void reset() { state_ = State::kUnbound; }

  /// Each begins with a work request, and is over when that is known to be done.
  MwBind begin_bind(const TargetMemory& target, RandomSource& random);
  void on_bound();
  void begin_invalidate();  // by the peer's SEND
  void on_invalidated();
  void begin_release();  // by its own end
  void on_released();

 private:
  enum class State : uint8_t { kUnbound, kBinding, kBound, kInvalidating, kReleasing };
  void step(State from, State to);

  State state_ = State::kUnbound;
  uint32_t key_ = 0;
  uint32_t offset_ = 0;
  uint32_t bytes_ = 0;
};

}  // namespace uroce::oracle
