#include "transport/selective_repeat.h"

#include <algorithm>
#include <bit>

namespace uroce {

namespace {

constexpr uint32_t kBoardFloor = 64;

/// The board has more room than the window, because packets that the peer holds do not count in the window: so a loss
/// does not stop the flow while it is repaired.
uint32_t board_packets(uint32_t window_packets) { return std::bit_ceil(std::max(2 * window_packets, kBoardFloor)); }

}  // namespace

SelectiveRepeat::SelectiveRepeat(const QpContext& context, const Ring<SendWqe>& ring, const RequestWindow& window)
    : requests(board_packets(context.env.window_packets)),
      responses(ring, window, requests, context.env.reorder_pool),
      probe(context.env.ack_delay),
      context_(context),
      ring_(ring),
      window_(window) {}

void SelectiveRepeat::start() { requests.start(); }

void SelectiveRepeat::reset() {
  requests.restart(window_.una());
  responses.reset();
  probe.reset();
}

void SelectiveRepeat::restart() {
  requests.restart(window_.una());
  responses.restart();
  probe.reset();
}

void SelectiveRepeat::on_asked(const ResponseRecovery::Ask& ask, Instant now) {
  responses.on_asked(ask);
  on_activity(now);
}

void SelectiveRepeat::on_progress(Instant now) {
  responses.on_progress();
  probe.on_progress();
  on_activity(now);
}

void SelectiveRepeat::after_taking(bool further, Instant now) {
  responses.after_taking(further, now);
  if (responses.has_gap()) responses.look(std::max<uint32_t>(context_.attributes.max_rd_atomic, 1), now);
}

bool SelectiveRepeat::expire(Instant now) {
  const bool loss = requests.expire(now);
  responses.expire(now);
  const bool waiting = !window_.all_answered() && peer_answers_probes();
  if (probe.expire(waiting, requests.rtt(), now)) {
    const bool response_missing = !ring_.empty() && ring_.front().started && ring_.front().needs_response() &&
                                  ring_.front().first_psn.before(requests.delivered());
    if (response_missing) responses.look_at_first(now);
  }
  return loss;
}

std::optional<RequestRecovery::Resend> SelectiveRepeat::take_resend() {
  if (requests.wants_transmit()) return requests.lost();
  const TailProbe::Packet packet = probe.take();
  if (packet == TailProbe::Packet::kNone) return std::nullopt;
  return requests.probe(packet);
}

}  // namespace uroce
