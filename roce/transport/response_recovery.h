// Which responses of READs and atomics are missing, and how to ask for just those, towards a peer that knows selective
// repeat.
//
// Responses that come before their turn are held. What is missing in front of them, or in front of an ACK from beyond,
// is a gap; when as much has come behind a gap as cannot be mere reordering, or when it is old, it is asked for: by a
// READ of just that part, or by the atomic again, both of which the peer knows as duplicates. A part of a READ may be
// asked for only when the peer has carried out the READ: before that it would be a new, shorter one.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ring.h"
#include "transport/reorder_buffer.h"
#include "transport/request_recovery.h"
#include "transport/request_window.h"
#include "transport/send_queue.h"
#include "uroce/psn.h"
#include "uroce/time.h"

namespace uroce {

class ResponseRecovery {
 public:
  /// A request for what is missing: `packets` responses from `psn` on, of the work request at `work` in the send queue.
  struct Ask {
    uint32_t work = 0;
    uint32_t index = 0;  // of the first of them among the work request's responses
    Psn psn;
    uint32_t packets = 0;
  };

  /// The requester's own, which outlive this; `requests` says what the peer has carried out, and how long things take.
  ResponseRecovery(const Ring<SendWqe>& ring, const RequestWindow& window, const RequestRecovery& requests,
                   ReorderPool* pool)
      : ring_(ring), window_(window), requests_(requests), held_(pool) {}

  /// A new connection.
  void reset();
  /// Everything without an answer is asked for again: nothing is held, there are no gaps.
  void restart();
  /// The peer got further.
  void on_progress() { asked_ = 0; }

  /// A response that is not the one waited for.
  ReorderBuffer::Result hold(const PacketView& packet, Instant now);
  /// An ACK, or a response that found no room, came from beyond a READ or atomic that waits for its response.
  void on_answer_beyond(Instant now);
  /// Responses are held, or something came from beyond a missing one.
  bool has_gap() const { return !held_.empty() || tail_gap_; }
  /// Takes out the response that window.una() waits for. The view is good until the next `hold`.
  bool take(PacketView& packet) { return held_.take(window_.una(), packet); }
  /// Call it when nothing more can be taken. `further`: una moved since the last call.
  void after_taking(bool further, Instant now);

  // Looking for a gap to ask for. `limit`: requests that the peer keeps room for, max_rd_atomic.
  /// One whose time has come.
  void look(uint32_t limit, Instant now) { find_gap(Patience::kUntilRipe, limit, now); }
  /// The first one, at once: nothing is going on any more.
  void look_at_first(Instant now) { find_gap(Patience::kNoneForFirst, 0, now); }
  /// When the first gap is so old that nothing behind it has to tell; never: there is none that nobody asked for.
  Instant next_timeout() const;
  void expire(Instant now);

  bool wants_transmit() const { return asking_; }
  /// What to ask for next in the gap; nothing when the gap has closed, or is the scoreboard's business.
  std::optional<Ask> take_ask();
  void on_asked(const Ask& ask);
  /// Since the connection began: then a response may say that it is the last where its READ does not end.
  bool asked_parts() const { return asked_parts_; }

 private:
  struct Gap {
    Psn begin;
    Psn end;
  };
  /// A gap is asked for when it is ripe, or the first one at once.
  enum class Patience : uint8_t { kUntilRipe, kNoneForFirst };
  void find_gap(Patience patience, uint32_t limit, Instant now);
  bool ripe(Instant asked_at, uint64_t first_arrival, Instant now) const;
  bool is_missing(const Gap& gap) const;
  uint32_t find_response(Psn from) const;

  const Ring<SendWqe>& ring_;
  const RequestWindow& window_;
  const RequestRecovery& requests_;
  ReorderBuffer held_;

  bool asking_ = false;  // for:
  Gap gap_;
  bool asked_parts_ = false;
  uint32_t asked_ = 0;  // requests since the last progress

  // What came before its turn has a number. Gaps before a run of the buffer have theirs beside the run.
  uint64_t arrivals_ = 0;
  bool tail_gap_ = false;  // an ACK came from beyond a READ or atomic whose response, as the newest, is missing
  uint64_t tail_arrivals_ = 0;
  Instant tail_asked_at_{0};
  Instant gap_since_ = Instant::never();  // the first gap is there
};

// Asked for every packet, hence here.
inline Instant ResponseRecovery::next_timeout() const {
  if (gap_since_ == Instant::never() || asking_ || asked_ != 0 || !requests_.rtt().known()) return Instant::never();
  return gap_since_ + Duration{requests_.patience().ns - requests_.rtt().smoothed().ns};
}

}  // namespace uroce
