// One connection of a run: its two ends, and which of them went away without a word.
#pragma once

#include <memory>

#include "oracle/rc_end.h"
#include "oracle/rc_host.h"

namespace uroce::oracle {

inline constexpr unsigned kSides = 2;

class RcPair {
 public:
  /// Makes the QPs and connects them.
  RcPair(sim::Testbed& bed, RcHost* const (&hosts)[kSides], const MixedOptions& options, uint64_t ops_each,
         RandomSource& random, Verdict& verdict);

  RcEnd& end(unsigned side) { return *ends_[side]; }
  const RcEnd& end(unsigned side) const { return *ends_[side]; }
  /// What its QPs are made with.
  sim::QpOptions& qp_options() { return qp_options_; }
  const sim::QpOptions& qp_options() const { return qp_options_; }

  /// Neither end went without a word.
  bool whole() const { return vanished_ == kSides; }
  /// That end is gone; the other one must have noticed by then.
  void note_vanished(unsigned side, Instant deadline);
  void note_joined();
  /// An end has given up, or nothing would make it.
  bool needs_mending() const;
  /// The end that should have noticed by now that its peer is gone; nullptr: none.
  const RcEnd* late(Instant now) const;

 private:
  sim::QpOptions qp_options_;
  std::unique_ptr<RcEnd> ends_[kSides];
  unsigned vanished_ = kSides;           // the side whose QP went without a word; kSides: none
  Instant deadline_ = Instant::never();  // until when its peer must have noticed
};

}  // namespace uroce::oracle
