#include "oracle/rc_run.h"

namespace uroce::oracle {

namespace {

/// Copies come within the span of reordering.
MixedOptions with_duplicate_span(MixedOptions options) {
  options.impairments.duplicate_span = options.impairments.reorder_span;
  return options;
}

/// A lost ARP request costs more time than these QPs' retry budgets: addresses are resolved before frames are lost.
std::unique_ptr<MixedBed> make_calm_testbed(const MixedOptions& options, RandomSource& random) {
  auto bed = make_testbed(options, random);
  if (options.loses()) bed->cable.set({});
  return bed;
}

}  // namespace

RcRun::RcRun(const MixedOptions& options)
    : options_(with_duplicate_span(options)),
      random_(options.seed),
      bed_(make_calm_testbed(options_, random_)),
      pairs_(*bed_, options_, random_, verdict_),
      incidents_(*bed_, pairs_, options_, verdict_) {
  if (options_.loses() && !bed_->world.run_until_idle()) verdict_.fail("address resolution never ended");
  bed_->cable.set(options_.impairments);
  for (unsigned s = 0; s < kSides; s++) {
    sim::Host& host = pairs_.host(s).host();
    host.port().set_rx_frames(options_.rx_frames);
    host.set_program([this, s] { pairs_.program(s); });
  }
}

/// Programs run after turns only, so hosts that have nothing to do are woken up now and then. False when nothing
/// completes any more for seconds of virtual time.
bool RcRun::run_to_end() {
  constexpr Duration kPatience = milliseconds(5'000);
  const Duration slice = incidents_.none() ? microseconds(100) : microseconds(10);
  uint64_t reached = pairs_.completions();
  Instant since = bed_->world.now();
  while (!bed_->world.run_until([this] { return pairs_.done(); }, slice)) {
    bed_->world.run_for(microseconds(10));
    incidents_.step();
    if (pairs_.completions() != reached || incidents_.blackout()) {
      reached = pairs_.completions();
      since = bed_->world.now();
    } else if (bed_->world.now() - since > kPatience) {
      return false;
    }
  }
  incidents_.calm_ports();
  return true;
}

MixedReport RcRun::run() {
  const Instant start = bed_->world.now();
  const bool finished = run_to_end();
  if (!finished && !verdict_.failed()) verdict_.fail("stuck:%s", pairs_.states().c_str());
  // Late duplicates and last ACKs: nothing of them may change anything.
  if (!verdict_.failed() && !bed_->world.run_until_idle(milliseconds(10'000))) verdict_.fail("never became idle");
  if (!verdict_.failed()) pairs_.check_end();
  MixedReport report = summarize(*bed_, verdict_, start);
  incidents_.add_to(report);
  pairs_.add_to(report);
  report.ops = ops_of_each_end(options_) * 2 * options_.qps;
  return report;
}

MixedReport run_rc(const MixedOptions& options) { return RcRun(options).run(); }

}  // namespace uroce::oracle
