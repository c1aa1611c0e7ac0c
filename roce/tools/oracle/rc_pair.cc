#include "oracle/rc_pair.h"

#include "base/check.h"
#include "oracle/run.h"

namespace uroce::oracle {

RcPair::RcPair(sim::Testbed& bed, RcHost* const (&hosts)[kSides], const MixedOptions& options, uint64_t ops_each,
               RandomSource& random, Verdict& verdict)
    : qp_options_(draw_qp(options, random)) {
  qp_options_.cap = {kQueueDepth, 32, 4, 4, 256};
  qp_options_.srq_a = hosts[0]->srq();
  qp_options_.srq_b = hosts[1]->srq();
  sim::Side sides[kSides] = {hosts[0]->side(), hosts[1]->side()};
  bed.add_qps(sides[0], sides[1], qp_options_);
  for (unsigned s = 0; s < kSides; s++) {
    Receiver& receiver = hosts[s]->add_receiver(sides[s]);
    ends_[s] =
        std::make_unique<RcEnd>(sides[s], receiver, hosts[s]->share(), options, random.next_u64(), ops_each, verdict);
  }
  ends_[0]->set_peer(*ends_[1]);
  ends_[1]->set_peer(*ends_[0]);
}

void RcPair::note_vanished(unsigned side, Instant deadline) {
  ensure(side < kSides, "there are two sides");
  ensure(whole(), "a connection that broke is mended before it breaks again");
  vanished_ = side;
  deadline_ = deadline;
}

void RcPair::note_joined() {
  vanished_ = kSides;
  deadline_ = Instant::never();
}

const RcEnd* RcPair::late(Instant now) const {
  return whole() || now <= deadline_ ? nullptr : ends_[1 - vanished_].get();
}

bool RcPair::needs_mending() const {
  if (whole()) return ends_[0]->broken() || ends_[1]->broken();
  const RcEnd& peer = *ends_[1 - vanished_];
  return peer.broken() || peer.idle();
}

}  // namespace uroce::oracle
