// Breaks connections in the middle of a run, on purpose, and mends those that broke: QPs that are reset, QPs that
// vanish, engines that are replaced. What is mended was looked at before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "oracle/rc_pairs.h"

namespace uroce::oracle {

class Mender {
 public:
  Mender(MixedBed& bed, RcPairs& pairs, RandomSource& random, RandomSource& engine_random, Verdict& verdict);

  /// Mends what broke by itself, and judges who should have noticed by now.
  void step();

  /// Without going through the error state, so nothing is flushed. A shared queue would not get its receives back.
  void reset(size_t pair);
  /// The program on one side died and was started again: its QPs are others. Nobody tells the other side.
  void vanish(size_t pair, unsigned side);
  /// The engine of a host goes with everything that it knows, without a word to anybody. The new one has the same
  /// addresses and, half of the time, gives out the same QP numbers and keys. The program's memory stays as it is. Each
  /// peer finds out for itself, then the two are connected anew: see `vanish`.
  void restart_engine();

  uint64_t reconnects() const { return reconnects_; }
  uint64_t engines() const { return engines_; }

 private:
  void mend(size_t pair);
  void reconnect(size_t pair);
  void note_vanished(size_t pair, unsigned side);

  MixedBed& bed_;
  RcPairs& pairs_;
  RandomSource& random_;
  RandomSource& engine_random_;
  Verdict& verdict_;
  uint64_t reconnects_ = 0;
  uint64_t engines_ = 0;
};

}  // namespace uroce::oracle
