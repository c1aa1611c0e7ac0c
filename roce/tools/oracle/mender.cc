#include "oracle/mender.h"

#include "base/check.h"

namespace uroce::oracle {

Mender::Mender(MixedBed& bed, RcPairs& pairs, RandomSource& random, RandomSource& engine_random, Verdict& verdict)
    : bed_(bed), pairs_(pairs), random_(random), engine_random_(engine_random), verdict_(verdict) {}

/// Both sides stop, everything is looked at, and the same two QPs begin anew. Old packets may still be under way: the
/// new numbers are far from theirs, on either side. (An old packet with exactly the expected number would be taken:
/// that is what the specification has TIME WAIT for.)
void Mender::mend(size_t pair) {
  for (unsigned s = 0; s < kSides; s++) pairs_[pair].end(s).stop(false);
  for (unsigned s = 0; s < kSides; s++) {
    if (pairs_[pair].end(s).qp().state() == QpState::kRts) pairs_.side_of(pair, s).modify(QpState::kErr);
  }
  pairs_.drain();
  reconnect(pair);
}

void Mender::reconnect(size_t pair) {
  RcPair& both = pairs_[pair];
  for (unsigned s = 0; s < kSides; s++) {
    pairs_.side_of(pair, s).modify(QpState::kReset);
    RcHost& host = pairs_.host(s);
    if (host.srq() == nullptr) host.receiver(pair).take_back();
    host.forget_peer(both.end(1 - s).qp().qpn());
  }
  for (unsigned s = 0; s < kSides; s++) both.end(s).check_broken();
  if (verdict_.failed()) return;
  for (unsigned s = 0; s < kSides; s++) both.end(s).restart();
  if (verdict_.failed()) return;
  sim::QpOptions& options = both.qp_options();
  for (Psn* psn : {&options.psn_a, &options.psn_b}) *psn += ((random_.below(14) + 1) << 20) + random_.below(1 << 19);
  bed_.join(pairs_.side_of(pair, 0), pairs_.side_of(pair, 1), options);
  both.note_joined();
  ensure(both.whole() && !both.needs_mending(), "what was mended is whole");
  reconnects_++;
  bed_.a.kick();
  bed_.b.kick();
}

void Mender::reset(size_t pair) {
  if (!pairs_[pair].whole()) return;
  if (pairs_.shared_receives() || random_.below(3) == 0) return mend(pair);
  for (unsigned s = 0; s < kSides; s++) pairs_[pair].end(s).stop(true);
  pairs_.drain();
  reconnect(pair);
}

/// The other end has the time that its retries take to find out.
void Mender::note_vanished(size_t pair, unsigned side) {
  const Qp& peer = pairs_[pair].end(1 - side).qp();
  pairs_[pair].note_vanished(side, bed_.world.now() + kUnderWay + pairs_.retry_budget(peer));
}

void Mender::vanish(size_t pair, unsigned side) {
  if (pairs_.shared_receives() || !pairs_[pair].whole()) return reset(pair);
  RcEnd& end = pairs_[pair].end(side);
  pairs_.drain();
  end.stop(true);
  sim::Side s = pairs_.side_of(pair, side);
  pairs_.host(1 - side).forget_peer(s.qp->qpn());
  Receiver& receiver = pairs_.host(side).receiver(pair);
  s.engine().destroy_qp(s.qp, s.host->now());  // what lies at the port goes into its receives until now
  receiver.take_back();
  sim::Testbed::make_qp(s, side == 0, pairs_[pair].qp_options());
  end.set_qp(*s.qp);
  receiver.set_qp(s.qp);
  note_vanished(pair, side);
}

void Mender::restart_engine() {
  const unsigned side = engine_random_.below(kSides);
  pairs_.drain();
  for (size_t pair = 0; pair < pairs_.size() && !verdict_.failed(); pair++) {
    if (pairs_[pair].needs_mending() || !pairs_[pair].whole()) mend(pair);
  }
  if (verdict_.failed()) return;
  pairs_.drain();
  for (size_t pair = 0; pair < pairs_.size(); pair++) {
    RcEnd& end = pairs_[pair].end(side);
    end.stop(true);
    pairs_.host(1 - side).forget_peer(end.qp().qpn());
  }
  RcHost& host = pairs_.host(side);
  host.restart_engine(engine_random_.below(2) == 0);
  engines_++;
  for (size_t pair = 0; pair < pairs_.size(); pair++) {
    sim::QpOptions& options = pairs_[pair].qp_options();
    options.srq_a = pairs_.host(0).srq();
    options.srq_b = pairs_.host(1).srq();
    sim::Side now = host.side();
    sim::Testbed::make_qp(now, side == 0, options);
    if (host.srq() == nullptr) host.receiver(pair).move_to(now, nullptr);
    pairs_[pair].end(side).move_to(now);
    note_vanished(pair, side);
  }
}

void Mender::step() {
  for (size_t pair = 0; pair < pairs_.size() && !verdict_.failed(); pair++) {
    if (pairs_[pair].needs_mending()) {
      mend(pair);
    } else if (const RcEnd* end = pairs_[pair].late(bed_.world.now())) {
      verdict_.fail("its peer is gone, but no error within the retry budget: %s", end->state().c_str());
    }
  }
}

}  // namespace uroce::oracle
