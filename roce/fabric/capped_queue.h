// A queue in front of a cable that is slower than its sender: frames leave one after the other, each when the one
// before it is out; frames that do not fit are refused; leaving frames are marked by the bytes that they leave behind.
//
// A loop that shares its processor is late at times. Frames that waited then leave with the instants at which they
// would have left, so that the rate holds on average; a frame that did not wait never leaves in the past.
//
// The memory of the queue is there from the beginning. For one thread at a time.
#pragma once

#include <cstdint>
#include <optional>

#include "base/random.h"
#include "base/ring.h"
#include "fabric/ecn_marker.h"
#include "fabric/frame.h"
#include "fabric/rate_cap.h"
#include "fabric/switch_config.h"
#include "uroce/time.h"

namespace uroce::fabric {

struct CappedQueueConfig {
  uint64_t bits_per_second = 0;  // above 0
  uint64_t max_bytes = 0;
  uint32_t max_frames = 0;
  std::optional<EcnConfig> ecn;
};

struct CappedQueueCounters {
  uint64_t frames = 0;           // that left
  uint64_t full = 0;             // refused
  uint64_t ecn_marked = 0;       // when they left
  uint64_t ecn_not_capable = 0;  // would have been marked, but their sender does not know ECN
  uint64_t most_bytes = 0;       // that waited
};

class CappedQueue {
 public:
  /// `random` is used only in the constructor, for the queue's own stream.
  CappedQueue(const CappedQueueConfig& config, RandomSource& random);

  /// False when the queue is full; the frame then still belongs to the caller. A frame that is longer than the whole
  /// queue passes when nothing waits.
  bool push(const FabricFrame& frame, Instant now);
  /// The next frame whose turn on the cable has begun, which then belongs to the caller; one without data when there is
  /// none. `out` is the instant at which its last bit has left.
  FabricFrame pop(Instant now, Instant& out);
  /// When `pop` returns a frame; Instant::never() when nothing waits.
  Instant next() const;

  const CappedQueueCounters& counters() const { return counters_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    FabricFrame frame;
    Instant since;
  };

  Ring<Waiting> waiting_;
  uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  RateCap cable_;
  EcnMarker marker_;
  SeededRandom random_;
  CappedQueueCounters counters_;
};

}  // namespace uroce::fabric
