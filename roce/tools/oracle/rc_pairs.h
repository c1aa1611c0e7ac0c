// The connections of a run: two hosts, a pair of ends for each connection, and the programs that work at them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "oracle/rc_host.h"
#include "oracle/rc_pair.h"
#include "oracle/run.h"

namespace uroce::oracle {

/// Everything that was under way has arrived by then: reordering, jitter, late hosts.
inline constexpr Duration kUnderWay = milliseconds(2);

class RcPairs {
 public:
  /// Makes all of them, on a cable that loses nothing yet.
  RcPairs(MixedBed& bed, const MixedOptions& options, SeededRandom& random, Verdict& verdict);

  RcHost& host(unsigned side) { return side == 0 ? a_ : b_; }
  size_t size() const { return pairs_.size(); }
  RcPair& operator[](size_t pair) { return pairs_[pair]; }
  const RcPair& operator[](size_t pair) const { return pairs_[pair]; }
  /// One end's QP, on its host.
  sim::Side side_of(size_t pair, unsigned side);
  bool shared_receives() const { return a_.srq() != nullptr || b_.srq() != nullptr; }
  /// By when the error of a QP whose peer is gone must have come.
  Duration retry_budget(const Qp& qp) const;

  /// The program of a host: looks at what was completed, and posts.
  void program(unsigned side);
  /// Those of both, now.
  void drain();
  uint64_t completions() const { return completions_; }

  bool done() const;
  /// When all is done and nothing is under way any more.
  void check_end();
  void add_to(MixedReport& report) const;
  /// Of the ends that are not done.
  std::string states() const;

 private:
  RcEnd* end_of(unsigned side, uint32_t qpn);

  const MixedOptions& options_;
  Verdict& verdict_;
  RcHost a_;
  RcHost b_;
  std::deque<RcPair> pairs_;
  uint64_t completions_ = 0;
};

}  // namespace uroce::oracle
