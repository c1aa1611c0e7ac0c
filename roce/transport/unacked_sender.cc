#include "transport/datagram.h"
#include "transport/raw_packet.h"
#include "transport/request_encoder.h"
#include "transport/send_completer.h"

namespace uroce {

void UnackedSender::start() {
  next_psn_ = context_.attributes.sq_psn;
  packet_ = 0;
}

bool UnackedSender::wants_transmit() const {
  if (queue_.ring().empty()) return false;
  return context_.state == QpState::kRts || (context_.state == QpState::kSqd && packet_ != 0);
}

PollResult UnackedSender::poll_transmit(TxFrame& frame, Instant now) {
  while (wants_transmit()) {
    const SendWqe& wqe = queue_.ring().front();
    if (wqe.is_local()) {
      const Outcome outcome = complete_head(run_local(context_, wqe), now);
      if (outcome != Outcome::kGoesOn) return {.outcome = outcome};
      continue;
    }
    if (context_.type == QpType::kRawPacket) {
      const Cause cause = encode_raw_frame(context_, wqe, frame);
      if (cause == Cause::kNone) context_.counters().tx_raw_frames++;
      return {.frame = cause == Cause::kNone, .outcome = complete_head(cause, now)};
    }
    const Cause cause = encode_request(context_, wqe, packet_, next_psn_, AckRequest::kNo, frame);
    if (cause != Cause::kNone) return {.outcome = complete_head(cause, now)};
    next_psn_ += 1;
    if (++packet_ < wqe.packets) return {.frame = true};
    return {.frame = true, .outcome = complete_head(Cause::kNone, now)};
  }
  return {};
}

/// Completes the head. A local failure stops only the send queue; receiving goes on.
Outcome UnackedSender::complete_head(Cause cause, Instant now) {
  const Outcome outcome = report_send(context_, queue_, cause, now);
  queue_.ring().pop();
  packet_ = 0;
  if (outcome != Outcome::kGoesOn || cause == Cause::kNone) return outcome;
  return Outcome::kSendQueueFailed;
}

void UnackedSender::flush(Instant now) {
  while (!queue_.ring().empty()) (void)complete_head(Cause::kFlushed, now);  // the QP has failed already
}

}  // namespace uroce
