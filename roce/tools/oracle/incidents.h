// What befalls two hosts and their connections in the middle of a run: cables that are cut, QPs that are reset or
// vanish, engines that are replaced, clocks that leap, ports and hosts that run out of room. And somebody else in the
// network who would like to be one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "oracle/blackout.h"
#include "oracle/buffer_shortage.h"
#include "oracle/clock_leaps.h"
#include "oracle/mender.h"
#include "oracle/port_starvation.h"
#include "oracle/rc_pairs.h"
#include "oracle/spoofer.h"

namespace uroce::oracle {

class Incidents {
 public:
  /// Draws which there will be, and when.
  Incidents(MixedBed& bed, RcPairs& pairs, const MixedOptions& options, Verdict& verdict);

  /// None will come, and ports and buffers stay as they are.
  bool none() const;
  /// Nothing can be completed for longer than retries last.
  bool blackout() const { return blackout_.under_way(); }
  /// Between events: the next incident, repairs, and what must have happened by now.
  void step();
  /// From now on ports take and give what they can.
  void calm_ports();
  void add_to(MixedReport& report) const;

 private:
  /// Something that happens when so many operations have completed.
  struct Incident {
    Fault what;
    uint64_t at;
  };
  void draw(RandomSource& random, Fault fault, uint32_t most);
  void begin(Fault fault);
  void step_spoofer();

  const MixedOptions& options_;
  MixedBed& bed_;
  RcPairs& pairs_;
  // Each fault that came later has its own, so that the others stay what they are when it is left out.
  SeededRandom random_;
  SeededRandom engine_random_;
  SeededRandom clock_random_;
  SeededRandom memory_random_;
  Mender mender_;
  Blackout blackout_;
  ClockLeaps leaps_;
  PortStarvation starvation_;
  BufferShortage shortage_;
  Spoofer spoofer_;
  std::vector<Incident> incidents_;  // the next one last
};

}  // namespace uroce::oracle
