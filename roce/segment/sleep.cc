#include "segment/sleep.h"

#include <algorithm>
#include <atomic>

namespace uroce::segment {

void Sleep::set(WakeWish wish) {
  wish_ = wish;
  base_.bell.store(Bell::encode(++times_, wish), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Sleep::arm(bool for_long) {
  set(WakeWish::kAtOnce);
  const bool ready = has_frames();
  bells_.look(for_long ? Bells::Look::kLast : Bells::Look::kAtAnyTime);
  if (!ready && !(for_long && bells_.owes())) return true;
  disarm();
  return false;
}

bool Sleep::stand_back() {
  set(WakeWish::kLeftLying);
  return !has_frames();
}

void Sleep::note_rung() {
  if (wish_ != WakeWish::kNever) set(wish_);
}

void Sleep::disarm() {
  if (wish_ == WakeWish::kNever) return;
  set(WakeWish::kNever);
  woken_ = true;
}

bool Sleep::has_frames() const {
  const auto& contacts = peers_.in_contact();
  return answers_.any() || std::any_of(contacts.begin(), contacts.end(), [](const Peer* peer) {
           return !peer->held_back && peer->lane->receiver.ready();
         });
}

}  // namespace uroce::segment
