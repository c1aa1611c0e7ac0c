#include "connect.h"

#include <cinttypes>
#include <cstdio>

#include "fabric/impairments.h"
#include "sim/connections.h"

namespace uroce::simulate {
namespace {

double in_us(Duration duration) { return static_cast<double>(duration.ns) / 1e3; }
double in_ms(Duration duration) { return static_cast<double>(duration.ns) / 1e6; }

void print_cm(const char* side, const cm::CmCounters& counters) {
  std::printf("  %s:", side);
  cm::for_each_counter(counters, [](const char* name, uint64_t value) {
    if (value != 0) std::printf(" %s %" PRIu64, name, value);
  });
  std::printf("\n");
}

}  // namespace

int connect(const ConnectOptions& options) {
  sim::ConnectionsOptions run;
  run.seed = options.seed;
  run.count = options.count;
  run.per_second = options.per_second;
  run.link.delay = options.delay;
  run.link.bits_per_second = options.rate;
  run.hold = options.hold;
  if (const std::string why = fabric::parse_impairments(options.faults, run.link.impairments); !why.empty()) {
    std::fprintf(stderr, "uroce-sim: --faults '%s': %s\n", options.faults.c_str(), why.c_str());
    return 2;
  }
  const sim::ConnectionsReport report = sim::run_connections(run);
  if (options.hash_only) {
    std::printf("%016" PRIx64 "\n", report.hash);
  } else {
    std::printf("%u connections of %u stand after %.3f ms (%.0f a second); %u failed, %u half open\n",
                report.established, options.count, in_ms(report.coming_up), report.per_second(), report.failed,
                report.half_open);
    std::printf("  one takes %.1f us (median), %.1f us (99 %%), %.1f us (longest)\n", in_us(report.median),
                in_us(report.p99), in_us(report.longest));
    std::printf("all are gone after %.3f ms; %u left over; %" PRIu64 " datagrams had no room\n",
                in_ms(report.going_down), report.left_over, report.datagrams_without_room);
    print_cm("client", report.client);
    print_cm("server", report.server);
  }
  if (report.failure.empty()) return 0;
  std::printf("seed %" PRIu64 " FAILED: %s\n", options.seed, report.failure.c_str());
  return 1;
}

}  // namespace uroce::simulate
