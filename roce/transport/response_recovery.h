// Which responses of READs and atomics are missing, and how to ask for just those, towards a peer that knows selective
// repeat.
//
// Responses that come before their turn are held. What is missing before them, or before an ACK for later requests, is
// a gap. A gap is asked for when more has come behind it than reordering explains, or when it is old: by a READ of just
// the missing part, or by the same atomic again, both of which the peer recognises as duplicates. A part of a READ may
// be asked for only when the peer has carried out the READ: before that, the peer would take the request for a new,
// shorter READ.
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
    uint32_t index = 0;  // of the first missing one among the work request's responses
    Psn psn;
    uint32_t packets = 0;
  };

  /// `ring`, `window` and `requests` are the requester's, and outlive this object; `requests` says what the peer has
  /// carried out, and how long round trips take.
  ResponseRecovery(const Ring<SendWqe>& ring, const RequestWindow& window, const RequestRecovery& requests,
                   ReorderPool* pool)
      : ring_(ring), window_(window), requests_(requests), held_(pool) {}

  /// Begins anew for a connection.
  void reset();
  /// Everything without an answer will be asked for again: forgets what is held, and all gaps.
  void restart();
  /// The peer got further.
  void on_progress() { asked_ = 0; }

  /// Holds a response that is not the one waited for.
  ReorderBuffer::Result hold(const PacketView& packet, Instant now);
  /// An ACK, or a response for which there was no room, came for a request behind a READ or atomic that waits for its
  /// response.
  void on_answer_beyond(Instant now);
  /// True when responses are held, or when an answer came for a request behind a missing response.
  bool has_gap() const { return !held_.empty() || tail_gap_; }
  /// Takes out the response that window.una() waits for. The view is valid until the next `hold`.
  bool take(PacketView& packet) { return held_.take(window_.una(), packet); }
  /// To be called when nothing more can be taken. `further`: una has moved since the last call.
  void after_taking(bool further, Instant now);

  // The following look for a gap to ask for. `limit` is how many requests the peer keeps room for, max_rd_atomic.
  /// Looks for a gap that is ripe.
  void look(uint32_t limit, Instant now) { find_gap(Patience::kUntilRipe, limit, now); }
  /// Takes the first gap at once, because nothing more is arriving.
  void look_at_first(Instant now) { find_gap(Patience::kNoneForFirst, 0, now); }
  /// When the first gap is so old that it is asked for whatever has come behind it. Instant::never() when there is no
  /// gap that was not asked for yet.
  Instant next_timeout() const;
  void expire(Instant now);

  bool wants_transmit() const { return asking_; }
  /// What to ask for next in the gap. Nothing when the gap has closed, or when the peer has not carried out the
  /// request, which is then recovered by RequestRecovery.
  std::optional<Ask> take_ask();
  void on_asked(const Ask& ask);
  /// Whether parts of READs were asked for since the connection began. If so, a response may be marked as the last
  /// before its READ ends.
  bool asked_parts() const { return asked_parts_; }

 private:
  struct Gap {
    Psn begin;
    Psn end;
  };
  /// Whether a gap is asked for only when it is ripe, or the first one at once.
  enum class Patience : uint8_t { kUntilRipe, kNoneForFirst };
  void find_gap(Patience patience, uint32_t limit, Instant now);
  bool ripe(Instant asked_at, uint64_t first_arrival, Instant now) const;
  bool is_missing(const Gap& gap) const;
  uint32_t find_response(Psn from) const;

  const Ring<SendWqe>& ring_;
  const RequestWindow& window_;
  const RequestRecovery& requests_;
  ReorderBuffer held_;

  bool asking_ = false;  // gap_ is being asked for
  Gap gap_;
  bool asked_parts_ = false;
  uint32_t asked_ = 0;  // requests since the last progress

  // What came before its turn is numbered by arrival. The numbers of gaps before a run of the buffer are kept with the
  // run.
  uint64_t arrivals_ = 0;
  bool tail_gap_ = false;  // an ACK came from beyond a READ or atomic whose response, as the newest, is missing
  uint64_t tail_arrivals_ = 0;
  Instant tail_asked_at_{0};
  Instant gap_since_ = Instant::never();  // since when there is a first gap
};

// Called for every packet, hence inline.
inline Instant ResponseRecovery::next_timeout() const {
  if (gap_since_ == Instant::never() || asking_ || asked_ != 0 || !requests_.rtt().known()) return Instant::never();
  return gap_since_ + Duration{requests_.patience().ns - requests_.rtt().smoothed().ns};
}

}  // namespace uroce
