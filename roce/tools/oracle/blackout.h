// The cable is cut for longer than the retries last: what was under way when it was cut fails, and nothing else does.
#pragma once

#include <vector>

#include "oracle/rc_pairs.h"

namespace uroce::oracle {

class Blackout {
 public:
  /// `usual`: what the cable is like before and after.
  Blackout(const sim::Cable& cable, const fabric::ImpairmentConfig& usual, Verdict& verdict)
      : cable_(cable), usual_(usual), verdict_(verdict) {}

  bool under_way() const { return began_ != Instant::never(); }
  void begin(RcPairs& pairs, Instant now);
  void step(RcPairs& pairs, Instant now);

 private:
  void end();

  const sim::Cable& cable_;
  const fabric::ImpairmentConfig& usual_;
  Verdict& verdict_;
  Instant began_ = Instant::never();
  Duration length_{};
  std::vector<const RcEnd*> doomed_;  // had something under way when the cable was cut
};

}  // namespace uroce::oracle
