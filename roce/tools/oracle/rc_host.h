// One host of a run over reliable connections: its engine's objects, what its ends share, its receives, and who watches
// what it sends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oracle/host_share.h"
#include "oracle/options.h"
#include "oracle/receiver.h"
#include "oracle/trace_checker.h"
#include "oracle/verdict.h"
#include "sim/testbed.h"

namespace uroce::oracle {

class RcHost {
 public:
  /// `trace`: watches instead of the checker; nullptr: none.
  RcHost(sim::Host& host, Capture* trace, const MixedOptions& options, SeededRandom& random, Verdict& verdict);
  RcHost(const RcHost&) = delete;
  RcHost& operator=(const RcHost&) = delete;

  /// With domain and completion queues, without a QP.
  const sim::Side& side() const { return side_; }
  sim::Host& host() const { return *side_.host; }
  HostShare& share() { return share_; }
  const HostShare& share() const { return share_; }
  /// All of its ends, or none.
  SharedReceiveQueue* srq() const { return srq_; }
  /// For the end of the next pair.
  Receiver& add_receiver(const sim::Side& end);
  Receiver& receiver(size_t pair) { return *receivers_[srq_ != nullptr ? 0 : pair]; }
  size_t receivers() const { return receivers_.size(); }
  /// The connection to that QP is over.
  void forget_peer(uint32_t qpn) { checker_.forget(qpn); }

  /// Its clock goes on by so much at once.
  void leap(Instant now, Duration by);
  /// The engine is another one, with all objects but the receives of ends that have their own: those move with their
  /// QPs.
  void restart_engine(bool same_numbers);

  /// At the very end: the counter, and no error that nobody asked for.
  void check_end();
  /// Why its responder sent fatal NAKs, and which work requests failed first: what explains most failures.
  std::string refusals() const;

 private:
  static sim::Side make_objects(sim::Host& host);
  void watch() { side_.engine().set_capture(trace_ != nullptr ? trace_ : &checker_); }

  const MixedOptions& options_;
  RandomSource& random_;
  Verdict& verdict_;
  TraceChecker checker_;
  Capture* trace_;
  sim::Side side_;
  HostShare share_;
  uint32_t srq_slots_ = 0;
  SharedReceiveQueue* srq_ = nullptr;
  std::vector<std::unique_ptr<Receiver>> receivers_;
};

}  // namespace uroce::oracle
