// DPDK without hugepages, PCI or files of its own, started once for all driver tests.
#include <gtest/gtest.h>
#include <rte_eal.h>

#include <array>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::array<char*, 12> arguments{};
  int count = 0;
  for (const char* argument : {"pmd_driver", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "256",
                               "-l", "0", "--log-level=lib.eal:error"}) {
    arguments[static_cast<size_t>(count++)] = const_cast<char*>(argument);
  }
  if (rte_eal_init(count, arguments.data()) < 0) {
    fprintf(stderr, "EAL does not start\n");
    return 1;
  }
  const int failed = RUN_ALL_TESTS();
  rte_eal_cleanup();
  return failed;
}
