// What a requester has in addition to its cursor when it may use selective repeat (doc/adr/0015-selective-repeat.md):
// exactly the lost packets are sent again, and exactly the missing responses are asked for.
//
// It has three parts. `requests` knows which requests the peer has, and which have to be sent again. `responses` keeps
// responses of READs and atomics that come early, and knows the gaps between them. `probe` is for when there is only
// silence. This class connects the three with each other and with time; the requester takes the packets that come in
// and makes those that go out.
//
// None of this touches the RetryTimer: when the peer is gone, the QP fails exactly when it would without selective
// repeat.
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
  /// All three belong to the requester's QP and outlive this object.
  SelectiveRepeat(const QpContext& context, const Ring<SendWqe>& ring, const RequestWindow& window);

  /// Begins anew for a connection, perhaps to another peer.
  void start();
  /// Nothing is under way.
  void reset();
  /// The cursor goes back to una: no answer to what was sent is expected any more. Gaps in the responses stay.
  void on_rewind() { requests.restart(window_.una()); }
  /// Forgets all that is known of what is under way: after a timeout, a NAK or an RNR NAK.
  void restart();

  /// A packet left from the cursor, which has moved on; `work`: the position of its work request.
  void on_sent(Psn psn, uint32_t work, Instant now) {
    requests.on_sent(psn, work, now);
    on_activity(now);
  }
  /// Missing responses were asked for.
  void on_asked(const ResponseRecovery::Ask& ask, Instant now);
  /// The peer got further.
  void on_progress(Instant now);
  /// Nothing more can be taken from the responses that are held. `further`: una has moved in the meantime.
  void after_taking(bool further, Instant now);

  Instant next_timeout() const {
    return std::min({probe.next_timeout(), requests.next_timeout(), responses.next_timeout()});
  }
  /// True when packets were found to be lost.
  bool expire(Instant now);

  /// True when a packet is to be sent that is not at the cursor.
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
