// Which QPs have something to do: those that have something to send, those that owe a congestion notification, and
// when each wants to be called again.
//
// A QP with something to send is ready, or paused, or congested. Paused: its priority was found paused when its turn
// came; it is tried again when other priorities are paused than then. Congested: its destination takes no frames; it is
// ready again in the next transmission.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "engine/qp_queue.h"
#include "engine/timer_queue.h"
#include "transport/qp.h"
#include "uroce/time.h"

namespace uroce {

class QpSchedule {
 public:
  static constexpr uint32_t kCnpsMax = 64;  // waiting; when there are more, the next marked packet asks again

  /// QPs have indices below `qps_max`.
  explicit QpSchedule(uint32_t qps_max);

  /// After anything that touched a QP: queues it if it has something to send, and keeps its timer.
  void update(Qp& qp) {
    if (!ready_.contains(qp) && !paused_.contains(qp) && qp.wants_transmit()) ready_.push(qp);
    timers_.arm(qp.index(), qp.next_timeout());
  }
  /// The same for one that was taken and has nothing to send.
  void rest(Qp& qp) { timers_.arm(qp.index(), qp.next_timeout()); }
  /// After a post, which brings no deadline nearer: one that only a rate keeps from sending has to wait for its time,
  /// and one that is queued comes back with `update`.
  void on_posted(Qp& qp) {
    if (ready_.contains(qp)) return;
    if (!qp.wants_transmit()) return timers_.arm(qp.index(), qp.next_timeout());
    if (!paused_.contains(qp)) ready_.push(qp);
  }
  /// Gives `qp` the next turn, if it has one at all.
  void put_first(Qp& qp) {
    if (ready_.contains(qp)) ready_.put_first(qp);
  }
  /// To be called before `qp` is destroyed.
  void remove(const Qp& qp);

  /// QPs that have something to send.
  uint32_t ready_count() const { return ready_.size(); }
  /// The QP whose turn it is; there must be one. It comes back with `update`, `set_paused` or `set_congested`.
  Qp& take_ready() {
    Qp& qp = ready_.front();
    ready_.pop();
    return qp;
  }
  /// `pauses`: the priorities that are paused now, as bits.
  void set_paused(Qp& qp, uint8_t pauses) {
    ensure(!ready_.contains(qp), "a QP is ready or paused, not both");
    paused_.push(qp);
    pauses_seen_ = pauses;
  }
  /// With other pauses than when they were set aside, the paused ones are ready; those that still have to be silent are
  /// set aside again.
  void release_paused(uint8_t pauses) {
    if (!paused_.empty() && pauses != pauses_seen_) release_all_paused();
  }

  /// `qp`, whose turn it was, has something to send that had better wait. It is ready again with `release_congested`,
  /// behind those that are ready now. Nothing else is done with it before.
  void set_congested(Qp& qp) { congested_.push(qp); }
  void release_congested() {
    for (; !congested_.empty(); congested_.pop()) ready_.push(congested_.front());
  }

  /// Whether congestion notifications wait to be sent.
  bool cnps_wait() const { return !cnps_.empty(); }
  bool takes_cnp(const Qp& qp) const { return !cnps_.contains(qp) && !cnps_.full(); }
  /// Only when `takes_cnp`.
  void want_cnp(Qp& qp) { cnps_.push(qp); }
  Qp& take_cnp() {
    Qp& qp = cnps_.front();
    cnps_.pop();
    return qp;
  }

  bool wants_transmit() const { return !ready_.empty() || !cnps_.empty(); }

  /// The index of the next QP whose time may have come; TimerQueue::kNone when there is none. It is asked for its
  /// deadline, and comes back with `update`.
  uint32_t pop_due(Instant now) { return timers_.pop_due(now); }
  Instant next_timeout() const { return timers_.next(); }

 private:
  void release_all_paused();

  QpQueue ready_;
  QpQueue paused_;
  uint8_t pauses_seen_ = 0;  // when the latest QP was set aside
  QpQueue congested_;        // during one transmission
  QpQueue cnps_;
  TimerQueue timers_;
};

}  // namespace uroce
