#include "transport/reliable_service.h"

#include <utility>

namespace uroce {

void ReliableService::make_room(QpState to, uint32_t max_dest_rd_atomic) {
  if (context_.state == QpState::kInit && to == QpState::kRtr) responder_.make_room(max_dest_rd_atomic);
  if (context_.state == QpState::kSqd) responder_.change_depth(max_dest_rd_atomic);
}

Outcome ReliableService::on_timeout(Instant now) {
  responder_.on_timeout(now);
  const bool sends = context_.state == QpState::kRts || context_.state == QpState::kSqd;
  return sends ? requester_.on_timeout(now) : Outcome::kGoesOn;
}

/// A delayed ACK follows the program's own packets; any other answer goes before them. Answers go first, but a peer
/// that reads a lot does not keep us from our own work.
PollResult ReliableService::poll_transmit(TxFrame& frame, Instant now) {
  const bool delays_ack = responder_.delays_ack();
  Outcome outcome = Outcome::kGoesOn;
  if (delays_ack || std::exchange(answered_, false)) {
    const PollResult request = requester_.poll_transmit(frame, now);
    if (request.frame && delays_ack && !requester_.wants_transmit()) responder_.end_ack_delay();
    if (request.frame) return request;
    outcome = request.outcome;
  }
  const PollResult answer =
      responder_.poll_transmit(frame);  // also when a request failed, so that what was received is acknowledged
  answered_ = answer.frame;
  outcome = std::max(outcome, answer.outcome);
  if (answered_ || outcome != Outcome::kGoesOn) return {.frame = answered_, .outcome = outcome};
  return requester_.poll_transmit(frame, now);
}

}  // namespace uroce
