// Connections that end before their time, by an error or on purpose: everything is flushed in order, nothing that was
// acknowledged is missing, and nothing is done twice.
#include <cinttypes>
#include <cstring>

#include "oracle/rc_end.h"

namespace uroce::oracle {

/// The first failure has a reason, everything behind it is flushed: each once, in order, whether it asked for a
/// completion or not.
void RcEnd::on_failed(const Completion& completion) {
  const WcStatus status = completion.status;
  const bool gave_up =
      status == WcStatus::kRetryExcErr || (status == WcStatus::kRnrRetryExcErr && options_.has(Fault::kReceives));
  const bool fair = status == WcStatus::kWrFlushErr ? broken_ || stopped_ : gave_up && !broken_ && options_.may_fail();
  if (!fair) {
    return verdict_.fail("QP %06x work request %" PRIu64 " failed: %s (%s); retries left %u", side_.qp->qpn(),
                         completion.wr_id, wc_status_name(status), cause_text(completion.cause),
                         side_.qp->requester().retry_timer().retries_left());
  }
  if (completion.cause == Cause::kTimeout && !wait_.long_enough(side_, share_.leaps)) {
    return verdict_.fail("QP %06x gave up before it had waited for all of its retries", side_.qp->qpn());
  }
  if (!broken_ && !retire_before(completion)) return;
  broken_ = true;
  if (pending_.empty() || pending_.front().wr_id != completion.wr_id) {
    return verdict_.fail("QP %06x: work request %" PRIu64 " is flushed out of its turn, or twice", side_.qp->qpn(),
                         completion.wr_id);
  }
  unsure_.push_back(std::move(pending_.front()));
  pending_.pop_front();
}

void RcEnd::on_flushed_receive(const Completion& completion) {
  if (Receiver::Slot* slot = receiver_.complete(completion.wr_id, verdict_)) receiver_.wipe(*slot);
}

void RcEnd::stop(bool vanished) {
  stopped_ = true;
  vanished_ = vanished_ || vanished;
}

/// Does some operation that nobody knows the end of put there what is there?
bool RcEnd::explained(uint32_t offset) const {
  const uint8_t got = target_.data()[offset];
  for (const Pending& op : peer_->unsure_) {
    const uint32_t at = offset - op.changed_offset;
    if (at < op.after.size() && (op.before[at] == got || op.after[at] == got)) return true;
  }
  return false;
}

void RcEnd::move_to(const sim::Side& side) {
  side_ = side;
  side_.register_again(target_);
  landing_.register_again(side_);
  window_key_ = side_.engine().memory().allocate_window(side_.pd, true);
}

void RcEnd::check_broken() {
  if (!pending_.empty() && !vanished_) {
    return verdict_.fail("QP %06x: no completion for work request %" PRIu64 " although it is in error", side_.qp->qpn(),
                         pending_.front().wr_id);
  }
  for (Pending& op : pending_) unsure_.push_back(std::move(op));
  pending_.clear();
  if (!peer_->incoming_.empty() && peer_->incoming_.front().wr_id <= last_done_ && !peer_->vanished_) {
    return verdict_.fail("QP %06x: work request %" PRIu64 " completed, but its message never arrived", side_.qp->qpn(),
                         peer_->incoming_.front().wr_id);
  }
  for (const Pending& op : unsure_) peer_share()->counter_unsure += op.shared_counter ? 1 : 0;
}

void RcEnd::restart() {
  for (uint32_t i = 0; i < target_.size; i++) {
    if (target_.data()[i] == model_[i] || explained(i)) continue;
    return verdict_.fail("QP %06x: byte %u of its memory is %02x, not %02x, when its connection is over",
                         side_.qp->qpn(), i, target_.data()[i], model_[i]);
  }
  std::memcpy(model_.data(), target_.data(), target_.size);
  peer_->unsure_.clear();
  landing_.clear();
  incoming_.clear();
  window_ = Window::kUnbound;
  window_key_ = side_.engine().memory().allocate_window(side_.pd, true);
  if (window_key_ == 0) verdict_.fail("no memory window");
  unsignalled_ = 0;
  note_progress();
  stopped_ = vanished_ = broken_ = false;
}

}  // namespace uroce::oracle
