// What befalls connections in the middle of a run: cables that are cut for longer than the retries last, QPs that are
// reset, QPs that vanish. And the loop that goes on until everything is done.
#include <algorithm>

#include "oracle/rc_run.h"
#include "transport/timing.h"

namespace uroce::oracle {

namespace {

constexpr Duration kPatience = milliseconds(5'000);

}  // namespace

void RcRun::draw_incidents() {
  const auto draw = [this](SeededRandom& random, Fault fault, uint32_t most) {
    if (!options_.has(fault)) return;
    for (uint32_t count = 1 + random.below(most); count > 0; count--) {
      incidents_.push_back({fault, random.below(static_cast<uint32_t>(options_.ops / 2) + 1)});
    }
  };
  draw(incident_random_, Fault::kBlackout, 1);
  draw(incident_random_, Fault::kReset, 4);
  draw(incident_random_, Fault::kRestart, 3);
  draw(engine_random_, Fault::kEngine, 2);
  draw(clock_random_, Fault::kClock, 6);
  std::stable_sort(incidents_.begin(), incidents_.end(), [](const auto& x, const auto& y) { return x.at > y.at; });
}

sim::Side RcRun::side_of(unsigned pair, unsigned side) const {
  sim::Side s = sides_[side];
  s.qp = &ends_[side][pair]->qp();
  return s;
}

/// By when the error of a QP whose peer is gone must have come: once, twice, then four times the timeout for each try.
Duration RcRun::retry_budget(const Qp& qp) const {
  const QpAttributes& attributes = pairs_[0].options.attributes;
  const Duration once = ack_timeout(qp.attributes().timeout);
  Duration budget{once.ns * 4 * (attributes.retry_cnt + 1) + milliseconds(5).ns};
  // What cannot leave is not late.
  for (const fabric::PauseStorm& storm : wrong_.pause_storms) budget.ns += storm.length.ns;
  if (options_.has(Fault::kPort)) budget.ns += milliseconds(100).ns;
  if (options_.has(Fault::kMemory)) budget.ns += milliseconds(100).ns;
  return budget;
}

void RcRun::drain() {
  for (unsigned s = 0; s < kSides; s++) program(s);
}

/// Both sides stop, everything is looked at, and the same two QPs begin anew. Old packets may still be under way: the
/// new numbers are far from theirs, on either side. (An old packet with exactly the expected number would be taken:
/// that is what the specification has TIME WAIT for.)
void RcRun::mend(unsigned pair) {
  RcEnd* const ends[kSides] = {ends_[0][pair].get(), ends_[1][pair].get()};
  for (RcEnd* end : ends) end->stop(false);
  for (unsigned s = 0; s < kSides; s++) {
    const QpState state = ends[s]->qp().state();
    if (state == QpState::kRts) side_of(pair, s).modify(QpState::kErr);
  }
  drain();
  reconnect(pair);
}

void RcRun::reconnect(unsigned pair) {
  RcEnd* const ends[kSides] = {ends_[0][pair].get(), ends_[1][pair].get()};
  for (unsigned s = 0; s < kSides; s++) {
    side_of(pair, s).modify(QpState::kReset);
    if (srqs_[s] == nullptr) receivers_[s][pair]->take_back();
    checkers_[s].forget(ends[1 - s]->qp().qpn());
  }
  for (RcEnd* end : ends) end->check_broken();
  for (RcEnd* end : ends) end->restart();
  if (verdict_.failed()) return;
  sim::QpOptions& options = pairs_[pair].options;
  for (Psn* psn : {&options.psn_a, &options.psn_b})
    *psn += ((incident_random_.below(14) + 1) << 20) + incident_random_.below(1 << 19);
  bed_->join(side_of(pair, 0), side_of(pair, 1), options);
  pairs_[pair].vanished = kSides;
  pairs_[pair].deadline = Instant::never();
  reconnects_++;
  bed_->a.kick();
  bed_->b.kick();
}

/// Without going through the error state, so nothing is flushed. A shared queue would not get its receives back.
void RcRun::reset_pair(unsigned pair) {
  if (pairs_[pair].vanished != kSides) return;
  if (shared_receives() || incident_random_.below(3) == 0) return mend(pair);
  for (auto& side : ends_) side[pair]->stop(true);
  drain();
  reconnect(pair);
}

/// The program on one side died and was started again: its QPs are others. Nobody tells the other side.
void RcRun::vanish(unsigned pair, unsigned side) {
  if (shared_receives() || pairs_[pair].vanished != kSides) return reset_pair(pair);
  RcEnd& end = *ends_[side][pair];
  RcEnd& peer = *ends_[1 - side][pair];
  drain();
  end.stop(true);
  sim::Side s = side_of(pair, side);
  checkers_[1 - side].forget(s.qp->qpn());
  receivers_[side][pair]->take_back();
  s.engine().destroy_qp(s.qp, s.host->now());
  sim::Testbed::make_qp(s, side == 0, pairs_[pair].options);
  end.set_qp(*s.qp);
  receivers_[side][pair]->set_qp(s.qp);
  pairs_[pair].vanished = side;
  pairs_[pair].deadline = bed_->world.now() + kUnderWay + retry_budget(peer.qp());
}

/// From now on they take and give what they can.
void RcRun::calm_ports() {
  for (sim::Host* host : {&bed_->a, &bed_->b}) {
    if (options_.has(Fault::kPort)) host->port().set_tx_room(32);
    if (options_.has(Fault::kMemory)) host->port().set_out_of_buffers(false);
  }
}

void RcRun::begin_blackout() {
  bed_->cable.set({.loss = 1});
  calm_ports();  // a retransmission that cannot leave is no retry
  blackout_began_ = bed_->world.now();
  Duration longest{};
  for (const auto& end : ends_[0]) longest = std::max(longest, retry_budget(end->qp()));
  blackout_length_ = longest;
  doomed_.clear();
}

/// What was under way when the cable was cut has failed by now, and nothing else has.
void RcRun::end_blackout() {
  for (const RcEnd* end : doomed_) {
    if (!end->broken()) verdict_.fail("no error within the retry budget: %s", end->state().c_str());
  }
  blackout_began_ = Instant::never();
  bed_->cable.set(wrong_);
}

void RcRun::begin(const Incident& incident) {
  if (incident.what == Fault::kEngine) return restart_engine(engine_random_.below(kSides));
  if (incident.what == Fault::kClock) return begin_leaps();
  const unsigned pair = incident_random_.below(static_cast<uint32_t>(pairs_.size()));
  switch (incident.what) {
    case Fault::kBlackout:
      return begin_blackout();
    case Fault::kReset:
      return reset_pair(pair);
    default:
      return vanish(pair, incident_random_.below(kSides));
  }
}

bool RcRun::needs_mending(unsigned pair) const {
  const unsigned gone = pairs_[pair].vanished;
  if (gone == kSides) return ends_[0][pair]->broken() || ends_[1][pair]->broken();
  const RcEnd& peer = *ends_[1 - gone][pair];
  return peer.broken() || peer.idle();
}

/// Between events: the next incident, repairs, and what must have happened by now.
void RcRun::step() {
  const Instant now = bed_->world.now();
  if (blackout_began_ != Instant::never()) {
    if (doomed_.empty() && now >= blackout_began_ + kUnderWay) {
      for (const auto& side : ends_) {
        for (const auto& end : side) {
          if (end->waits()) doomed_.push_back(end.get());
        }
      }
    }
    if (now >= blackout_began_ + kUnderWay + blackout_length_) end_blackout();
    return;
  }
  for (unsigned pair = 0; pair < pairs_.size() && !verdict_.failed(); pair++) {
    if (needs_mending(pair)) {
      mend(pair);
    } else if (now > pairs_[pair].deadline) {
      const unsigned alive = 1 - pairs_[pair].vanished;
      verdict_.fail("its peer is gone, but no error within the retry budget: %s", ends_[alive][pair]->state().c_str());
    }
  }
  if (options_.has(Fault::kPort) && now >= starved_until_) {
    const bool starve = starved_until_ != Instant::never() && incident_random_.below(2) == 0;
    for (sim::Host* host : {&bed_->a, &bed_->b}) host->port().set_tx_room(starve ? 0 : 1 + incident_random_.below(32));
    starved_until_ = now + microseconds(10 + incident_random_.below(starve ? 400 : 300));
  }
  if (options_.has(Fault::kMemory)) step_memory();
  if (options_.has(Fault::kSpoofer)) step_spoofer();
  if (now >= leaps_at_) leap();
  if (incidents_.empty() || completions_ < incidents_.back().at) return;
  const Incident next = incidents_.back();
  incidents_.pop_back();
  begin(next);
}

/// Programs run after turns only, so hosts that have nothing to do are woken up now and then. False when nothing
/// completes any more for seconds of virtual time.
bool RcRun::run_to_end() {
  if (options_.has(Fault::kPort)) starved_until_ = bed_->world.now();
  const bool calm = incidents_.empty() && !options_.has(Fault::kPort) && !options_.has(Fault::kMemory) &&
                    !options_.has(Fault::kSpoofer);
  const Duration slice = calm ? microseconds(100) : microseconds(10);
  uint64_t reached = completions_;
  Instant since = bed_->world.now();
  while (!bed_->world.run_until([this] { return done(); }, slice)) {
    bed_->world.run_for(microseconds(10));
    step();
    if (completions_ != reached || blackout_began_ != Instant::never()) {
      reached = completions_;
      since = bed_->world.now();
    } else if (bed_->world.now() - since > kPatience) {
      return false;
    }
  }
  calm_ports();
  return true;
}

}  // namespace uroce::oracle
