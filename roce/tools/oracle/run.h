// What runs over RC, UC and UD have in common.
#pragma once

#include <functional>
#include <memory>

#include "oracle/options.h"
#include "oracle/verdict.h"
#include "sim/testbed.h"
#include "sim/trace.h"

namespace uroce::oracle {

/// Two hosts with drawn engine settings and the impairments asked for.
struct MixedBed : sim::Testbed {
  using Testbed::Testbed;
  sim::Trace trace_a{"a"};
  sim::Trace trace_b{"b"};
};
std::unique_ptr<MixedBed> make_testbed(const MixedOptions& options, RandomSource& random);
/// Drawn attributes; often sequence numbers that are about to wrap.
sim::QpOptions draw_qp(const MixedOptions& options, RandomSource& random);
/// How much each end of each pair posts.
uint64_t ops_of_each_end(const MixedOptions& options);
/// Until `done`. Programs run after turns only, so hosts that have nothing to do are woken up now and then. False when
/// `progress` stands still for seconds of virtual time.
bool run_with_nudges(sim::Testbed& bed, const std::function<bool()>& done, const std::function<uint64_t()>& progress);
/// Every drop that either engine has counted, for a failure's text.
std::string drops(sim::Testbed& bed);
MixedReport summarize(sim::Testbed& bed, const Verdict& verdict, Instant start);

MixedReport run_rc(const MixedOptions& options);
MixedReport run_unacked(const MixedOptions& options);  // UC and UD

}  // namespace uroce::oracle
