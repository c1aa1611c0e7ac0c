// What a requester keeps beside its cursor when it may use selective repeat.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "base/time.h"
#include "transport/reorder_buffer.h"
#include "transport/scoreboard.h"

namespace uroce {

struct SelectiveRepeat {
  SelectiveRepeat(uint32_t packets, ReorderPool* pool) : board(packets), responses(pool) {}

  Scoreboard board;         // requests: have they reached the peer?
  ReorderBuffer responses;  // that came before their turn
  Psn delivered;            // the peer has carried out everything before it
  uint64_t spurious = 0;    // of the board, as counted
  uint64_t samples = 0;     // of its round trips, as told to congestion control

  // A gap in the responses that is being asked for.
  bool asking = false;
  Psn ask_next;
  Psn ask_end;
  bool asked_parts = false;  // ever: a part ends where its READ does not
  uint32_t asked = 0;        // requests since the last progress: the peer keeps room for max_rd_atomic of them

  // Gaps. Those before a run have this beside the run.
  uint64_t arrivals = 0;  // responses and ACKs that came before their turn
  bool tail_gap = false;  // an ACK came from beyond a READ or atomic whose response, as the newest, is missing
  uint64_t tail_arrivals = 0;
  Instant tail_asked_at{0};
  Instant gap_since = Instant::never();  // the first gap is there

  // Timer.
  enum class Probe : uint8_t { kNone, kLast, kFirst };
  Probe probe = Probe::kNone;  // to be sent
  uint8_t probes = 0;          // since the last progress
  Instant active_at{0};        // sent or got further
  Instant probe_at = Instant::never();
};

}  // namespace uroce
