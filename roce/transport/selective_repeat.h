// What a requester has beside its cursor when it may use selective repeat (doc/adr/0015): exactly what is lost is sent
// again, and exactly what is missing is asked for.
//
// Three parts. Requests: which of them the peer has, and which have to be sent again. Responses of READs and atomics:
// those that come early, and the gaps between them. The probe: when there is only silence. Here stands what they have
// to do with each other, and with time; the requester takes what comes in and makes the packets that go out.
//
// None of this touches the RetryTimer: when the peer is gone, its end comes exactly as without.
#pragma once

#include <algorithm>

#include "base/ring.h"
#include "transport/qp_context.h"
#include "transport/request_recovery.h"
#include "transport/request_window.h"
#include "transport/response_recovery.h"
#include "transport/send_queue.h"
#include "transport/tail_probe.h"
#include "uroce/time.h"

namespace uroce {

class SelectiveRepeat {
 public:
  /// The requester's own, which outlive this.
  SelectiveRepeat(const QpContext& context, const Ring<SendWqe>& ring, const RequestWindow& window);

  /// A new connection, perhaps to another peer.
  void start();
  /// Nothing is under way.
  void reset();
  /// The cursor goes back to una: what was sent is no longer waited for. Gaps in the responses stay.
  void on_rewind() { requests.restart(window_.una()); }
  /// All that is known of what is under way is forgotten: after a timeout, a NAK, an RNR NAK.
  void restart();

  /// A packet left from the cursor, which has moved on; `work`: the position of its work request.
  void on_sent(Psn psn, uint32_t work, Instant now) {
    requests.on_sent(psn, work, now);
    on_activity(now);
  }
  /// A part of the responses was asked for.
  void on_asked(const ResponseRecovery::Ask& ask, Instant now);
  /// The peer got further.
  void on_progress(Instant now);
  /// Nothing more can be taken from what is held. `further`: una moved meanwhile.
  void after_taking(bool further, Instant now);

  Instant next_timeout() const {
    return std::min({probe.next_timeout(), requests.next_timeout(), responses.next_timeout()});
  }
  /// True: packets are lost that were not known to be.
  bool expire(Instant now);

  /// Something is to be sent that is not at the cursor.
  bool wants_transmit() const {
    return responses.wants_transmit() || requests.wants_transmit() || probe.wants_transmit();
  }
  /// The request to send again first: a lost one, or the probe.
  std::optional<RequestRecovery::Resend> take_resend();

  RequestRecovery requests;
  ResponseRecovery responses;
  TailProbe probe;

 private:
  void on_activity(Instant now) {
    probe.on_activity(now);
    if (window_.all_answered() && window_.distance_to_cursor() == 0) {
      probe.stop();
    } else if (peer_answers_probes()) {
      probe.start(requests.rtt(), now);
    }
  }
  bool peer_answers_probes() const { return context_.peer.selective(); }

  const QpContext& context_;
  const Ring<SendWqe>& ring_;
  const RequestWindow& window_;
};

}  // namespace uroce
