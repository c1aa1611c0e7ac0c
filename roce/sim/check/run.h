// What runs over RC, UC and UD have in common.
#pragma once

#include <functional>
#include <memory>

#include "sim/check/options.h"
#include "sim/check/testbed.h"
#include "sim/check/trace.h"
#include "sim/check/verdict.h"

namespace uroce::sim {

/// Two hosts with drawn engine settings and the impairments asked for.
struct MixedBed : Testbed {
  using Testbed::Testbed;
  Trace trace_a{"a"};
  Trace trace_b{"b"};
};
std::unique_ptr<MixedBed> make_testbed(const MixedOptions& options, RandomSource& random);
/// Drawn attributes; often sequence numbers that are about to wrap.
QpOptions draw_qp(const MixedOptions& options, RandomSource& random);
/// Until `done`. Programs run after turns only, so hosts that have nothing to do are woken up now and then. False when
/// `progress` stands still for seconds of virtual time.
bool run_with_nudges(Testbed& bed, const std::function<bool()>& done, const std::function<uint64_t()>& progress);
/// Every drop that either engine has counted, for a failure's text.
std::string drops(Testbed& bed);
MixedReport summarize(Testbed& bed, const Verdict& verdict, Instant start);

MixedReport run_rc(const MixedOptions& options);
MixedReport run_unacked(const MixedOptions& options);  // UC and UD

}  // namespace uroce::sim
