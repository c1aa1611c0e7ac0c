// DPDK without hugepages, PCI or files of its own, started once for all driver tests.
#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_interrupts.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <string>

/// The one lcore, on all CPUs that the process may use: threads started later are not bound to one CPU.
static std::string lcore_everywhere() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::string cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &allowed)) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu);
  }
  return "--lcores=0@(" + cpus + ")";
}

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string lcore = lcore_everywhere();
  const std::string prefix = "--file-prefix=pmd_driver" + std::to_string(getpid());
  std::array<char*, 12> arguments{};
  int count = 0;
  for (const char* argument : {"pmd_driver", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "256",
                               lcore.c_str(), prefix.c_str(), "--log-level=lib.eal:error"}) {
    arguments[static_cast<size_t>(count++)] = const_cast<char*>(argument);
  }
  if (rte_eal_init(count, arguments.data()) < 0) {
    fprintf(stderr, "EAL does not start\n");
    return 1;
  }
  // EAL makes a thread's event list once: it exists before a test counts descriptors.
  rte_epoll_event event{};
  static_cast<void>(rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, 0));
  const int failed = RUN_ALL_TESTS();
  rte_eal_cleanup();
  return failed;
}
