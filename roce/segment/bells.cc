#include "segment/bells.h"

#include <algorithm>
#include <atomic>

namespace uroce::segment {
namespace {

/// What a peer says and has read is in lines of its own processor's: no more peers than these are asked in one look.
constexpr size_t kAskedPerLook = 16;

}  // namespace

/// False when the peer cannot be woken at the moment.
bool Bells::wake(Peer& peer, uint32_t bell) {
  Lane& lane = *peer.lane;
  if (bell == lane.watch.rung) return true;
  Letter letter;
  letter.from = own_;
  // It may be our own socket that has no room, full of letters that their receivers do not read.
  if (mailbox_.send(peer.id, letter) == Mailbox::Sent::kFull) {
    owes_ = true;
    watching_ |= !lane.sender.stuck();
    return false;
  }
  lane.watch.rung = bell;
  wakes_sent_++;
  return true;
}

void Bells::ring() {
  for (Peer* peer : fresh_) {
    Lane& lane = *peer->lane;
    lane.watch.fresh = false;
    if (!lane.watch.watched) watched_.push_back(peer);
    lane.watch.watched = true;
    lane.sender.publish();
    if (lane.base() == nullptr) continue;
    const uint32_t bell = lane.base()->bell.load(std::memory_order_relaxed);
    if (Bell::asks(bell, WakeWish::kAtOnce)) wake(*peer, bell);
  }
  fresh_.clear();
}

/// Whether nothing is left to be seen to: all was read, or the peer was rung.
bool Bells::is_done(Peer& peer, Look look) {
  Lane& lane = *peer.lane;
  if (lane.base() == nullptr) return false;  // its hello will come
  const uint32_t bell = lane.base()->bell.load(std::memory_order_relaxed);
  if (!Bell::asks(bell, WakeWish::kNever) && bell == lane.watch.rung) return true;
  if (!lane.sender.unread()) return true;
  if (Bell::asks(bell, WakeWish::kAtOnce)) return wake(peer, bell);
  if (lane.sender.stuck()) return true;
  const uint64_t read = lane.sender.consumed();
  const bool left_lying = look == Look::kLast || (look == Look::kTimely && lane.watch.lay_at == read);
  if (look == Look::kTimely) lane.watch.lay_at = read;
  if (!Bell::asks(bell, WakeWish::kLeftLying)) return false;
  if (left_lying) return wake(peer, bell);
  watching_ = true;
  return false;
}

/// Not immediately after a burst: waiting until other processors see what this one wrote takes longer than sending a
/// frame.
void Bells::look(Look look) {
  owes_ = watching_ = false;
  ring();
  if (watched_.empty()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const size_t most = look == Look::kTimely ? std::min(kAskedPerLook, watched_.size()) : watched_.size();
  for (size_t asked = 0; asked < most; asked++) {
    if (next_ >= watched_.size()) next_ = 0;
    Peer& peer = *watched_[next_];
    if (!is_done(peer, look)) {
      next_++;
      continue;
    }
    peer.lane->watch.watched = false;
    peer.lane->watch.lay_at.reset();
    watched_[next_] = watched_.back();
    watched_.pop_back();
  }
}

}  // namespace uroce::segment
