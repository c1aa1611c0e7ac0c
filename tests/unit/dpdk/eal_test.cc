// EAL's start, in processes of their own: a process has but one.
#include "dpdk/eal.h"

#include <gtest/gtest.h>
#include <rte_eal.h>
#include <unistd.h>

#include <cstdio>

namespace uroce {
namespace {

/// A DPDK application that opens an endpoint without saying that EAL runs.
[[noreturn]] void start_twice() {
  char name[] = "application", no_huge[] = "--no-huge", no_files[] = "--no-shconf", no_pci[] = "--no-pci";
  char no_telemetry[] = "--no-telemetry", memory[] = "-m", megabytes[] = "16";
  char* arguments[] = {name, no_huge, no_files, no_pci, no_telemetry, memory, megabytes};
  if (rte_eal_init(static_cast<int>(std::size(arguments)), arguments) < 0) _exit(2);
  std::string error;
  const bool good = start_eal({}, error);
  std::fprintf(stderr, "%s\n", error.c_str());
  _exit(good ? 1 : 0);
}

TEST(Eal, WhoStartedItElsewhereIsToldWhatToSay) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(start_twice(), testing::ExitedWithCode(0),
              "DPDK runs in this process already: open the endpoint with eal_running, on a port that DPDK has");
}

}  // namespace
}  // namespace uroce
