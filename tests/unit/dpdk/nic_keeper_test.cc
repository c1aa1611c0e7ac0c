// What a NIC takes before it is opened, and gives back: the end of a wire, a PCI device.
#include "dpdk/nic_keeper.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "temporary_directory.h"

namespace uroce {
namespace {

/// Between a refusal and its end another endpoint may take the end that was looked at.
TEST(NicKeeper, OneThatWasRefusedLeavesTheEndToWhoTookItThen) {
  const TemporaryRuntimeDir directory;
  EndpointConfig bad;
  bad.port = "net_mqnic0,wire=shm:refused,mac=1";
  EndpointConfig good;
  good.port = "net_mqnic0,wire=shm:refused";
  EngineMutex ownership;
  NicKeeper refused(bad, ownership);
  NicKeeper first(good, ownership);
  NicKeeper second(good, ownership);
  std::string error;
  EXPECT_FALSE(refused.plan(error));
  EXPECT_EQ(error, "port net_mqnic0: '1' is not a MAC address, such as 02:00:00:00:00:01");
  ASSERT_TRUE(first.plan(error)) << error;
  ASSERT_EQ(first.plan().end->number, 0u) << "it is free";
  refused.close();
  ASSERT_TRUE(second.plan(error)) << error;
  EXPECT_EQ(second.plan().end->number, 1u) << "the first is another's";
  first.close();
  second.close();
}

constexpr const char* kPciDevices = "/sys/bus/pci/devices";
constexpr const char* kPciDevice = "0000:03:00.0";

/// Makes the machine seem to have this device alone, for the calling thread. False when that cannot be arranged.
bool show_one_pci_device(const std::filesystem::path& folder) {
  std::filesystem::create_directory(folder / kPciDevice);
  std::ofstream(folder / kPciDevice / "config") << "4321";
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount(folder.c_str(), kPciDevices, nullptr, MS_BIND, nullptr) == 0;
}

TEST(NicKeeper, APciDeviceIsHeldUntilThePortIsClosed) {
  const TemporaryRuntimeDir directory;
  std::string skip;
  std::thread([&] {
    if (!show_one_pci_device(directory.path())) {
      skip = "no right to show other PCI devices than there are, or a machine without any";
      return;
    }
    EndpointConfig config;
    config.port = kPciDevice;
    EngineMutex ownership;
    NicKeeper port(config, ownership);
    NicKeeper late(config, ownership);
    std::string error;
    ASSERT_TRUE(port.plan(error)) << error;
    EXPECT_FALSE(late.plan(error));
    EXPECT_EQ(error.rfind("PCI device 0000:03:00.0 is in use already", 0), 0u) << error;
    late.close();
    EXPECT_FALSE(PciHold().take(kPciDevice, error)) << "who is refused takes it from nobody";
    port.close();
    EXPECT_TRUE(late.plan(error)) << error;
    late.close();
    EXPECT_TRUE(PciHold().take(kPciDevice, error)) << error;
  }).join();
  if (!skip.empty()) GTEST_SKIP() << skip;
}

}  // namespace
}  // namespace uroce
