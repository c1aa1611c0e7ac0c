#include "lint/conversation.h"

#include <algorithm>

namespace uroce::lint {

void Conversation::count_timeout(const Packet& packet) {
  statistics.timeouts++;
  if (!packet.has_time || !last_time) return;
  const int64_t silence_ns = std::max<int64_t>(0, packet.time.ns - last_time->ns);
  const bool first = statistics.timeouts == 1;
  statistics.timeout_min_ns = first ? silence_ns : std::min(statistics.timeout_min_ns, silence_ns);
  statistics.timeout_max_ns = std::max(statistics.timeout_max_ns, silence_ns);
}

void Conversation::learn_frontier(Psn end) {
  if (!is_young() || numbers.tip_open) return;
  const int32_t ahead = distance(numbers.next, end);
  if (ahead > 0 && ahead < kFar) numbers.next = end;
}

void Conversation::learn_mtu(uint32_t payload_bytes) {
  if (sent.mtu() != 0 || !is_mtu(payload_bytes)) return;
  const std::optional<Psn> tip = sent.learn_mtu(payload_bytes);
  if (numbers.tip_open && tip) numbers.close_tip(*tip);
  numbers.tip_open = false;
}

}  // namespace uroce::lint
