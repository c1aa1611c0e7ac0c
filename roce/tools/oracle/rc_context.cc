#include "oracle/rc_context.h"

namespace uroce::oracle {

RcContext::RcContext(const sim::Side& qp_side, HostShare& host_share, const MixedOptions& run_options, uint64_t seed,
                     uint64_t ops, Verdict& run_verdict)
    : side(qp_side),
      share(host_share),
      options(run_options),
      verdict(run_verdict),
      random(seed),
      target(side, kAtomicWords * 8 + 2 * options.max_bytes, random),
      landing(side, 3 * options.max_bytes + 4096),
      sends(ops) {
  if (!window.allocate(side)) verdict.fail("no memory window");
}

}  // namespace uroce::oracle
