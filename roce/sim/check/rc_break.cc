// Connections that end before their time, by an error or on purpose: everything is flushed in order, nothing that was
// acknowledged is missing, and nothing is done twice.
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "sim/check/rc_end.h"
#include "transport/timing.h"

namespace uroce::sim {

void RcEnd::note_progress() {
  progress_at_ = side_.host->now();
  leaps_before_ = share_.leaps.size();
  naks_before_ = naks_received();
}

/// By all QPs of the host.
uint64_t RcEnd::naks_received() const {
  const Counters& counters = side_.engine().counters();
  return counters.packet_seq_err + counters.implied_nak_seq_err;
}

/// Each retry that no NAK asked for has waited for an answer, by the host's clock, for the timeout at least. However
/// far the clock leaps at once: a leap ends one wait.
bool RcEnd::waited_long_enough() const {
  const QpAttributes attributes = side_.qp->attributes();
  const Duration once = ack_timeout(attributes.timeout);
  Duration waited = side_.host->now() - progress_at_;
  for (size_t i = leaps_before_; i < share_.leaps.size(); i++) {
    if (share_.leaps[i].by > once) waited.ns -= share_.leaps[i].by.ns - once.ns;
  }
  const uint64_t tries = attributes.retry_cnt + 1u;
  const uint64_t asked_for = std::min(naks_received() - naks_before_, tries - 1);
  return waited >= once * static_cast<int64_t>(tries - asked_for);
}

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
                         side_.qp->requester().retries_left());
  }
  if (completion.cause == Cause::kTimeout && !waited_long_enough()) {
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

void RcEnd::move_to(const Side& side) {
  side_ = side;
  side_.register_again(target_);
  side_.register_again(landing_);
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
  std::memset(landing_.data(), Receiver::kCanary, landing_.size);
  landing_head_ = landing_tail_ = 0;
  incoming_.clear();
  window_ = Window::kUnbound;
  window_key_ = side_.engine().memory().allocate_window(side_.pd, true);
  if (window_key_ == 0) verdict_.fail("no memory window");
  unsignalled_ = 0;
  note_progress();
  stopped_ = vanished_ = broken_ = false;
}

}  // namespace uroce::sim
