#include "oracle/rc_host.h"

#include "base/check.h"

namespace uroce::oracle {

RcHost::RcHost(sim::Host& host, Capture* trace, const MixedOptions& options, SeededRandom& random, Verdict& verdict)
    : options_(options),
      random_(random),
      verdict_(verdict),
      checker_(verdict),
      trace_(trace),
      side_(make_objects(host)),
      share_(side_, options.max_bytes + 65536, random) {
  watch();
  if (random.below(3) != 0) return;
  srq_slots_ = options.has(Fault::kReceives) ? 1 + random.below(4) : 4 + random.below(28);
  srq_ = side_.engine().objects().create_srq(side_.pd, srq_slots_, 4, nullptr);
  receivers_.push_back(std::make_unique<Receiver>(side_, srq_, srq_slots_, options.max_bytes, random));
}

/// All that a side has before its first memory region and QP.
sim::Side RcHost::make_objects(sim::Host& host) {
  sim::Side side;
  side.host = &host;
  side.pd = side.engine().objects().allocate_pd();
  side.send_cq = side.engine().objects().create_cq(4096, nullptr);
  side.recv_cq = side.engine().objects().create_cq(4096, nullptr);
  return side;
}

Receiver& RcHost::add_receiver(const sim::Side& end) {
  if (srq_ == nullptr) {
    const uint32_t slots = 1 + random_.below(options_.has(Fault::kReceives) ? 2 : 24);
    receivers_.push_back(std::make_unique<Receiver>(end, nullptr, slots, options_.max_bytes, random_));
  }
  ensure(srq_ == nullptr || receivers_.size() == 1, "a shared queue has one who posts to it");
  return *receivers_.back();
}

void RcHost::leap(Instant now, Duration by) {
  ensure(by.ns > 0, "a clock never goes back");
  share_.leaps.push_back({now, by});
  host().leap(by);
}

void RcHost::restart_engine(bool same_numbers) {
  host().restart_engine(same_numbers);
  // In the order of the first time.
  side_ = make_objects(host());
  watch();
  side_.register_again(share_.source, kLocalWrite);
  share_.counter.register_again(side_);
  if (srq_ == nullptr) return;
  srq_ = side_.engine().objects().create_srq(side_.pd, srq_slots_, 4, nullptr);
  receivers_[0]->move_to(side_, srq_);
}

void RcHost::check_end() {
  share_.counter.check_end(verdict_);
  const sim::RecordingObserver& seen = host().observer();
  if (!seen.error_completions.empty() && !options_.may_fail()) verdict_.fail("an error completion was reported");
  if (!seen.responder_errors.empty()) verdict_.fail("a responder refused something");
}

std::string RcHost::refusals() const {
  std::string text;
  const sim::RecordingObserver& seen = host().observer();
  for (const auto& e : seen.responder_errors) text += std::string("\n  responder: ") + cause_text(e.cause);
  for (const auto& e : seen.error_completions) {
    if (e.completion.status == WcStatus::kWrFlushErr) continue;
    text +=
        std::string("\n  completion: ") + wc_status_name(e.completion.status) + ", " + cause_text(e.completion.cause);
  }
  return text;
}

}  // namespace uroce::oracle
