// One direction of a cable for a polled loop: frames enter, meet `Impairments`, wait in a `DelayLine`, and come out.
//
// Frames come out in the order of their instants, as they entered if they are not delayed. For one thread at a time.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "fabric/delay_line.h"
#include "fabric/frame.h"
#include "fabric/impairments.h"
#include "uroce/time.h"

namespace uroce::fabric {

class ImpairedPath {
 public:
  /// At most `max_frames` are under way, in memory that is there from the beginning. `random` is used only in the
  /// constructor. The times of the configuration count from `start`.
  ImpairedPath(const ImpairmentConfig& config, uint32_t max_frames, FramePool& pool, RandomSource& random,
               Instant start)
      : pool_(pool), faults_(config, pool, random, start), line_(max_frames) {
    line_.reserve(max_frames);
  }

  /// The frame enters at `at`, and no longer belongs to the caller.
  void put(const FabricFrame& frame, Instant at);
  /// A frame that has come out, which then belongs to the caller; one without data when there is none.
  FabricFrame take(Instant now);
  /// When the next frame comes out; Instant::never() when none is under way.
  Instant next() const { return std::min(line_.next(), faults_.next_event()); }
  bool active() const { return faults_.active(); }

  const Impairments& faults() const { return faults_; }
  /// Frames that were dropped because as many as there is memory for were under way.
  uint64_t full() const { return full_; }

 private:
  FramePool& pool_;
  Impairments faults_;
  DelayLine line_;
  uint64_t full_ = 0;
};

}  // namespace uroce::fabric
