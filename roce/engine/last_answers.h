// What a queue pair that is about to end still owes its peer, when the port has no room for it: whole frames, which
// leave when there is room. Without its last ACK a peer repeats a message that was delivered, until that fails.
//
// ACKs, NAKs and results of atomics only: READ responses are large, and a queue pair that ends serves no READ any more.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"
#include "packet/sack.h"
#include "transport/counters.h"
#include "transport/frame_builder.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

class LastAnswers {
 public:
  static constexpr uint32_t kMax = 64;
  /// How long they wait for the port, or for the end of a pause.
  static constexpr Duration kPatience = milliseconds(4000);

  explicit LastAnswers(Counters& counters);

  bool empty() const { return count_ == 0; }
  /// Whether one of them may leave while those priorities are paused.
  bool any_for(uint8_t paused) const;

  /// False, and counted, when there is no room for another.
  bool has_room();
  /// Room for the frame of another.
  TxFrame room();
  /// Keeps what was written into `room`.
  void keep(uint32_t bytes, uint32_t qpn, uint32_t peer_qpn, uint8_t priority, Instant now);

  /// Drops those to that queue pair of a peer, which has a new connection now: it would take them for answers of that
  /// one.
  void forget(uint32_t peer_qpn);

  /// Writes up to `count` of those whose priority is not paused into `frames`, the oldest first, and the numbers of the
  /// queue pairs that they were of into `senders`. Returns how many. What waited too long is dropped and counted.
  uint32_t send(TxFrame* frames, uint32_t* senders, uint32_t count, uint8_t paused, Instant now);

 private:
  struct Answer {
    uint32_t bytes = 0;
    uint32_t qpn = 0;
    uint32_t peer_qpn = 0;
    uint8_t priority = 0;
    Instant until;
    std::array<uint8_t, 256> frame;
  };
  static_assert(sizeof Answer::frame >= kMaxFrameOverhead + kSackRangesMax * SackRange::kBytes);

  const Answer& at(uint32_t index) const { return answers_[order_[index]]; }
  void remove(uint32_t index);

  Counters& counters_;
  std::array<Answer, kMax> answers_;
  std::array<uint8_t, kMax> order_;  // of answers: the oldest first, and behind them those that are free
  uint32_t count_ = 0;
};

}  // namespace uroce
