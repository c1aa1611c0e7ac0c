// READs and WRITEs that a requester carries out by itself, in the memory of the peer's process.
//
// Such a request takes no sequence number and no message number, and nothing of it is on the wire. It begins when
// everything before it has been answered, and so has been executed by the peer; what follows it begins when it has
// ended. To the requester it is like a local operation: done, then completed, in its turn. Large ones are copied in
// parts, since each holds the engine.
//
// What the peer's responder might refuse, what is small, and what cannot be copied goes in frames.
#pragma once

#include <cstdint>

#include "base/direct_copy.h"
#include "transport/qp_context.h"
#include "transport/send_queue.h"
#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

class DirectRequests {
 public:
  /// Below this, frames are faster even where both programs have to share their cores (doc/performance.md#one-copy).
  static constexpr uint32_t kBytesMin = 16384;
  /// Copied in one call of `poll_transmit` at most.
  static constexpr uint32_t kBytesPerTurn = 256 * 1024;

  /// `context` is the QP's, of an engine with direct copies.
  explicit DirectRequests(QpContext& context) : context_(context) {}

  /// Whether the work request, at `position` in the send queue, is to be carried out here. The answer may become no
  /// while parts of it are copied already: then all of it goes in frames.
  bool takes(const SendWqe& wqe, uint32_t position) const;

  enum class [[nodiscard]] Step : uint8_t{
      kPart,  // the rest in a later turn
      kDone,
      kInFrames,  // it is not to be carried out here: `takes` says no from now on
  };
  /// Copies the next part. `next` is the PSN that the request would begin with. `room`: what may still be copied in
  /// this turn.
  Step carry_out(SendWqe& wqe, uint32_t position, Psn next, uint32_t& room, Instant now);
  /// The request at the cursor goes in frames now, if part of it was copied before.
  void leave(SendWqe& wqe);
  void reset() { under_way_ = refused_ = false; }

 private:
  bool copy(const SendWqe& wqe, uint32_t bytes, Psn next, Instant now) const;

  QpContext& context_;
  uint32_t copied_ = 0;      // of the request under way
  uint32_t refused_at_ = 0;  // position in the send queue
  bool under_way_ = false;
  bool refused_ = false;
};

}  // namespace uroce
