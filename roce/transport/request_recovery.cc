#include "transport/request_recovery.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace uroce {

void RequestRecovery::start() {
  board_.forget_path();
  samples_ = 0;
}

void RequestRecovery::restart(Psn una) {
  board_.clear();
  delivered_ = una;
}

RequestRecovery::News RequestRecovery::on_delivered(Psn upto, Instant now) {
  News news;
  if (!delivered_.before(upto)) return news;
  delivered_ = upto;
  board_.on_arrived(upto, now);
  news.rtt = new_rtt();
  news.loss = board_.find_lost() != 0;
  news.spurious = board_.spurious() - std::exchange(spurious_, board_.spurious());
  return news;
}

/// Impossible ranges are left out, but the others are used: if the peer holds one packet with a wrong PSN, that must
/// not make its selective ACKs useless.
RequestRecovery::News RequestRecovery::on_ranges(const PacketView& packet, Psn high, Instant now) {
  News news;
  const Psn gap = packet.bth.psn + 1;
  const uint32_t count = packet.payload_bytes / SackRange::kBytes;
  ensure(count <= kSackRangesMax, "a selective ACK has no more ranges than were checked");
  // The peer may be able to write to the frame: what is checked is what is used.
  uint8_t ranges[kSackRangesMax * SackRange::kBytes];
  std::memcpy(ranges, packet.payload, size_t{count} * SackRange::kBytes);
  std::atomic_signal_fence(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; i++) {
    const SackRange range = SackRange::decode(ranges + i * SackRange::kBytes);
    // The range must lie behind the gap, and contain nothing that was never sent.
    const bool possible = gap.before(range.first) && range.first.before(range.end) && !high.before(range.end);
    if (possible) {
      board_.on_held(range, now);
    } else {
      news.impossible_range = true;
    }
  }
  news.rtt = new_rtt();
  news.loss = board_.find_lost() != 0;
  return news;
}

bool RequestRecovery::on_expects(Psn next) {
  if (next != delivered_ || !board_.contradicts(next)) return false;
  board_.on_dropped();
  return true;
}

Duration RequestRecovery::patience() const {
  return {rtt().smoothed().ns + rtt().smoothed().ns / 4 + rtt().variation().ns};
}

Instant RequestRecovery::next_timeout() const { return rtt().known() ? board_.late_at(patience()) : Instant::never(); }

bool RequestRecovery::expire(Instant now) { return rtt().known() && board_.find_late(now, patience()) != 0; }

std::optional<RequestRecovery::Resend> RequestRecovery::lost() const {
  if (board_.lost() == Scoreboard::kNone) return std::nullopt;
  return describe(board_.lost(), false);
}

std::optional<RequestRecovery::Resend> RequestRecovery::probe(TailProbe::Packet packet) const {
  const uint32_t entry = packet == TailProbe::Packet::kLast ? board_.last_open() : board_.first_open();
  if (entry == Scoreboard::kNone) return std::nullopt;
  return describe(entry, true);
}

RequestRecovery::Resend RequestRecovery::describe(uint32_t entry, bool probe) const {
  const Scoreboard::Sent& sent = board_.at(entry);
  return {.entry = entry, .work = sent.work, .psn = sent.psn, .probe = probe};
}

/// The board measures packets that were sent once even while others are sent again, so its samples are used here.
std::optional<Duration> RequestRecovery::new_rtt() {
  if (board_.rtt().samples() == std::exchange(samples_, board_.rtt().samples())) return std::nullopt;
  return board_.rtt().latest();
}

}  // namespace uroce
