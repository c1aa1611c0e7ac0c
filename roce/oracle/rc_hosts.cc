// What befalls hosts in the middle of a run: the engine is destroyed and made anew, the clock leaps, frame buffers run
// out. And somebody else in the network who would like to be one of them.
#include "oracle/rc_run.h"
#include "transport/timing.h"

namespace uroce::oracle {

/// All that a side has before its first memory region and QP.
void RcRun::make_objects(unsigned s) {
  sim::Side& side = sides_[s];
  watch(s);
  side.pd = side.engine().objects().allocate_pd();
  side.send_cq = side.engine().objects().create_cq(4096, nullptr);
  side.recv_cq = side.engine().objects().create_cq(4096, nullptr);
}

void RcRun::watch(unsigned s) {
  Capture* const trace = s == 0 ? &bed_->trace_a : &bed_->trace_b;
  sides_[s].engine().set_capture(options_.trace ? trace : &checkers_[s]);
}

/// The engine of a host goes with everything that it knows, without a word to anybody. The new one has the same
/// addresses and, half of the time, gives out the same QP numbers and keys. The program's memory stays as it is. Each
/// peer finds out for itself, then the two are connected anew: see `vanish`.
void RcRun::restart_engine(unsigned s) {
  drain();
  for (unsigned pair = 0; pair < pairs_.size() && !verdict_.failed(); pair++) {
    if (needs_mending(pair) || pairs_[pair].vanished != kSides) mend(pair);
  }
  if (verdict_.failed()) return;
  drain();
  for (unsigned pair = 0; pair < pairs_.size(); pair++) {
    ends_[s][pair]->stop(true);
    checkers_[1 - s].forget(ends_[s][pair]->qp().qpn());
  }
  sim::Side& side = sides_[s];
  side.host->restart_engine(engine_random_.below(2) == 0);
  engines_++;
  // In the order of the first time.
  make_objects(s);
  side.register_again(shares_[s].source, kLocalWrite);
  side.register_again(shares_[s].counter);
  if (srqs_[s] != nullptr) {
    srqs_[s] = side.engine().objects().create_srq(side.pd, srq_slots_[s], 4, nullptr);
    receivers_[s][0]->move_to(side, srqs_[s]);
  }
  for (unsigned pair = 0; pair < pairs_.size(); pair++) {
    sim::QpOptions& options = pairs_[pair].options;
    options.srq_a = srqs_[0];
    options.srq_b = srqs_[1];
    sim::Side now = side;
    sim::Testbed::make_qp(now, s == 0, options);
    if (srqs_[s] == nullptr) receivers_[s][pair]->move_to(now, nullptr);
    ends_[s][pair]->move_to(now);
    pairs_[pair].vanished = s;
    pairs_[pair].deadline = bed_->world.now() + kUnderWay + retry_budget(ends_[1 - s][pair]->qp());
  }
}

/// One leap, or several so near to each other that no answer comes between them.
void RcRun::begin_leaps() {
  leaping_ = clock_random_.below(kSides);
  leaps_left_ = clock_random_.below(2) == 0 ? 1 : 1 + clock_random_.below(12);
  leap();
}

void RcRun::leap() {
  const Duration by = clock_random_.below(3) == 0 ? milliseconds(1 + clock_random_.below(5000))
                                                  : microseconds(100 + clock_random_.below(5000));
  shares_[leaping_].leaps.push_back({bed_->world.now(), by});
  sides_[leaping_].host->leap(by);
  leaps_left_--;
  leaps_at_ = leaps_left_ == 0 ? Instant::never() : bed_->world.now() + microseconds(1 + clock_random_.below(300));
}

/// Spells without frame buffers, of either host by itself.
void RcRun::step_memory() {
  if (bed_->world.now() < shortage_until_) return;
  const uint32_t kind = memory_random_.below(6);
  sides_[0].host->port().set_out_of_buffers(kind == 0 || kind == 2);
  sides_[1].host->port().set_out_of_buffers(kind == 1 || kind == 2);
  shortage_until_ = bed_->world.now() + microseconds(10 + memory_random_.below(kind <= 2 ? 300 : 1500));
}

void RcRun::step_spoofer() {
  for (unsigned s = 0; s < kSides; s++) {
    for (unsigned pair = 0; pair < pairs_.size(); pair++) {
      const RcEnd& victim = *ends_[s][pair];
      const RcEnd& peer = *ends_[1 - s][pair];
      spoofer_.attack(*sides_[s].host, victim.qp(), peer.qp(), victim.target());
    }
  }
}

}  // namespace uroce::oracle
