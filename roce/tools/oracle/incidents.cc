#include "oracle/incidents.h"

#include <algorithm>

#include "base/check.h"

namespace uroce::oracle {

Incidents::Incidents(MixedBed& bed, RcPairs& pairs, const MixedOptions& options, Verdict& verdict)
    : options_(options),
      bed_(bed),
      pairs_(pairs),
      random_((options.seed << 8) + 0x14C1D),
      engine_random_((options.seed << 8) + 0xE6E01),
      clock_random_((options.seed << 8) + 0xC70C7),
      memory_random_((options.seed << 8) + 0x3E301),
      mender_(bed, pairs, random_, engine_random_, verdict),
      blackout_(bed.cable, options.impairments, verdict),
      leaps_(clock_random_),
      starvation_(options, random_),
      shortage_(options, memory_random_),
      spoofer_((options.seed << 8) + 0x5F00F) {
  draw(random_, Fault::kBlackout, 1);
  draw(random_, Fault::kReset, 4);
  draw(random_, Fault::kRestart, 3);
  draw(engine_random_, Fault::kEngine, 2);
  draw(clock_random_, Fault::kClock, 6);
  std::stable_sort(incidents_.begin(), incidents_.end(), [](const auto& x, const auto& y) { return x.at > y.at; });
}

void Incidents::draw(RandomSource& random, Fault fault, uint32_t most) {
  if (!options_.has(fault)) return;
  for (uint32_t count = 1 + random.below(most); count > 0; count--) {
    incidents_.push_back({fault, random.below(static_cast<uint32_t>(options_.ops / 2) + 1)});
  }
}

bool Incidents::none() const {
  return incidents_.empty() && !options_.has(Fault::kPort) && !options_.has(Fault::kMemory) &&
         !options_.has(Fault::kSpoofer);
}

void Incidents::calm_ports() {
  starvation_.calm(pairs_);
  shortage_.calm(pairs_);
}

void Incidents::begin(Fault fault) {
  if (fault == Fault::kEngine) return mender_.restart_engine();
  if (fault == Fault::kClock) return leaps_.begin(pairs_, bed_.world.now());
  const uint32_t pair = random_.below(static_cast<uint32_t>(pairs_.size()));
  switch (fault) {
    case Fault::kBlackout:
      calm_ports();  // a retransmission that cannot leave is no retry
      return blackout_.begin(pairs_, bed_.world.now());
    case Fault::kReset:
      return mender_.reset(pair);
    default:
      ensure(fault == Fault::kRestart, "what is drawn can be begun");
      return mender_.vanish(pair, random_.below(kSides));
  }
}

void Incidents::step_spoofer() {
  if (!options_.has(Fault::kSpoofer)) return;
  for (unsigned s = 0; s < kSides; s++) {
    for (size_t pair = 0; pair < pairs_.size(); pair++) {
      const RcEnd& victim = pairs_[pair].end(s);
      const RcEnd& peer = pairs_[pair].end(1 - s);
      const sim::Buffer& target = victim.target();
      spoofer_.attack(pairs_.host(s).host(), victim.qp(), peer.qp(), {target.addr(), target.size, target.key});
    }
  }
}

void Incidents::step() {
  const Instant now = bed_.world.now();
  if (blackout_.under_way()) return blackout_.step(pairs_, now);
  mender_.step();
  starvation_.step(pairs_, now);
  shortage_.step(pairs_, now);
  step_spoofer();
  leaps_.step(pairs_, now);
  if (incidents_.empty() || pairs_.completions() < incidents_.back().at) return;
  const Incident next = incidents_.back();
  incidents_.pop_back();
  ensure(incidents_.empty() || incidents_.back().at >= next.at, "incidents come in the order of their times");
  begin(next.what);
}

void Incidents::add_to(MixedReport& report) const {
  report.reconnects = mender_.reconnects();
  report.engines = mender_.engines();
  report.forged = spoofer_.forged();
}

}  // namespace uroce::oracle
