// A secondary process would find ports whose queues are addresses of another process. It is refused.
#include <dlfcn.h>
#include <rte_eal.h>

#include "tests/unit/pmd/driver_rig.h"

static bool pretend_secondary = false;

/// Replaces EAL's, for the driver and for DPDK itself.
extern "C" enum rte_proc_type_t rte_eal_process_type(void) {
  using Function = enum rte_proc_type_t (*)(void);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "rte_eal_process_type"));
  return pretend_secondary ? RTE_PROC_SECONDARY : real();
}

namespace mqnic::test {
namespace {

class Secondary : public DriverRig {};

TEST_F(Secondary, ProcessesAreRefused) {
  pretend_secondary = true;
  const int rc = attach();
  pretend_secondary = false;
  EXPECT_EQ(rc, -ENOTSUP);
  uint16_t id = 0;
  EXPECT_EQ(rte_eth_dev_get_port_by_name("net_mqnic_test", &id), -ENODEV);
  port = RTE_MAX_ETHPORTS;
  ASSERT_EQ(attach(), 0) << "the primary one may";
}

}  // namespace
}  // namespace mqnic::test
