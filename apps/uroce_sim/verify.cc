#include "verify.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>

#include "oracle/options.h"

namespace uroce::simulate {

namespace {

constexpr QpType kTypes[] = {QpType::kRc, QpType::kUc, QpType::kUd};
constexpr const char* kTypeNames[] = {"rc", "uc", "ud"};
constexpr uint64_t kReportEvery = 1000;

}  // namespace

int verify(const VerifyOptions& options) {
  uint32_t without = 0;
  if (!oracle::parse_faults(options.without, without)) {
    std::fprintf(stderr, "uroce-sim: '%s' is no list of faults:", options.without.c_str());
    for (unsigned i = 0; i < static_cast<unsigned>(oracle::Fault::kCount); i++)
      std::fprintf(stderr, " %s", oracle::fault_name(static_cast<oracle::Fault>(i)));
    std::fprintf(stderr, "\n");
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto hours = [&] {
    return std::chrono::duration<double, std::ratio<3600>>(std::chrono::steady_clock::now() - start).count();
  };
  uint64_t runs = 0;
  uint64_t operations = 0;
  for (uint64_t seed = options.seed; options.hours != 0 ? hours() < options.hours : seed - options.seed < options.seeds;
       seed++) {
    for (unsigned i = 0; i < std::size(kTypes); i++) {
      if (options.type != "all" && options.type != kTypeNames[i]) continue;
      oracle::MixedOptions mixed = oracle::draw_mixed(seed, without);
      mixed.type = kTypes[i];
      mixed.ops = options.ops;
      mixed.max_bytes = options.max_bytes;
      mixed.trace = options.trace;
      const oracle::MixedReport report = oracle::run_mixed(mixed);
      runs++;
      operations += report.ops;
      if (!report.failure.empty()) {
        std::printf("seed %" PRIu64 ", %s FAILED: %s\nrepeat with: uroce-sim replay %" PRIu64
                    " --type %s --ops %" PRIu64 " --max %u%s%s\nfaults: %s; leave some out with --without\n",
                    seed, kTypeNames[i], report.failure.c_str(), seed, kTypeNames[i], options.ops, options.max_bytes,
                    options.without.empty() ? "" : " --without ", options.without.c_str(),
                    oracle::fault_list(mixed.faults).c_str());
        return 1;
      }
      if (options.seeds == 1 && options.hours == 0)
        std::printf("seed %" PRIu64 ", %s: %s\n", seed, kTypeNames[i], report.text().c_str());
      if (runs % kReportEvery == 0) {
        std::printf("%" PRIu64 " runs up to seed %" PRIu64 ", %.2f hours, no failure\n", runs, seed, hours());
        std::fflush(stdout);
      }
    }
  }
  std::printf("%" PRIu64 " runs, %" PRIu64 " operations, every byte and completion as it should be\n", runs,
              operations);
  return 0;
}

}  // namespace uroce::simulate
