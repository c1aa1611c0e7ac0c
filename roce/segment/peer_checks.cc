#include "segment/peer_checks.h"

#include <algorithm>
#include <utility>

namespace uroce::segment {
namespace {

/// Every peer is looked at once within this time.
constexpr Duration kCheckAll = milliseconds(250);
/// How often the members look for one that was killed and had no contact with others.
constexpr Duration kTidy = milliseconds(500);
/// A peer that is stopped or waits for a CPU keeps its ring full, and frames for it wait. Meanwhile the transport's
/// timers rest; if they rested for ever, the error that must report a dead peer would never come.
constexpr Duration kStuckAfter = milliseconds(1000);
/// How long a peer whose record was removed is believed to live: a peer that lives makes its record anew within a
/// moment.
constexpr Duration kUnknownMax = milliseconds(10'000);

}  // namespace

Peer* PeerChecks::find_gone(Instant now) {
  const auto& contacts = peers_.in_contact();
  if (now < next_check_) return nullptr;
  next_check_ = std::max(next_check_, now + Duration{-kCheckAll.ns});
  for (size_t i = 0; i < contacts.size() && next_check_ <= now; i++) {
    next_check_ = next_check_ + Duration{std::max(kCheckAll.ns / static_cast<int64_t>(contacts.size()), int64_t{1})};
    last_checked_ = last_checked_ + 1 < contacts.size() ? last_checked_ + 1 : 0;
    if (is_gone(*contacts[last_checked_], now)) return contacts[last_checked_];
  }
  if (contacts.empty()) next_check_ = now + kCheckAll;
  return nullptr;
}

bool PeerChecks::is_gone(Peer& peer, Instant now) {
  Lane& lane = *peer.lane;
  LaneSender& sender = lane.sender;
  sender.reclaim();
  const bool idle = sender.consumed() == sender.produced() && !sender.waiting();
  // Any time may pass between two looks while a program sleeps: frames that it sent just now count from this look on.
  const bool waited = std::exchange(lane.unread, !idle);
  if (idle || !waited || sender.consumed() != lane.seen_at) {
    lane.seen_at = sender.consumed();
    lane.seen = now;
    sender.set_stuck(false);
  } else if (now - lane.seen > kStuckAfter && !sender.stuck()) {
    sender.set_stuck(true);
    dropped_stuck_ += sender.drop_backlog();
  }
  // Frames that a peer sent before it ended are still received.
  return has_ended(peer, now) && !lane.receiver.ready();
}

bool PeerChecks::has_ended(Peer& peer, Instant now) {
  const Directory::Life life = peers_.life(peer);
  Lane& lane = *peer.lane;
  if (life != Directory::Life::kUnknown) {
    lane.unknown_since = Instant::never();
    return life == Directory::Life::kNo;
  }
  if (lane.unknown_since == Instant::never()) lane.unknown_since = now;
  return now - lane.unknown_since > kUnknownMax;
}

void PeerChecks::tidy(Instant now) {
  if (now < next_tidy_) return;
  next_tidy_ = now + Duration{kTidy.ns * static_cast<int64_t>(peers_.size() + 1)};
  peers_.refresh(true);
}

}  // namespace uroce::segment
