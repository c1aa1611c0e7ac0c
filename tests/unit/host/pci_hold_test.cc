#include "host/pci_hold.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "temporary_directory.h"

namespace uroce {
namespace {

class PciHoldTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(dir_.path() / kDevice);
    std::ofstream(dir_.path() / kDevice / "config") << "4321";
  }
  bool take(PciHold& hold) { return hold.take(kDevice, error_, dir_.path()); }

  static constexpr const char* kDevice = "0000:03:00.0";
  TemporaryRuntimeDir dir_;
  std::string error_;
};

TEST_F(PciHoldTest, ADeviceHasOneOwner) {
  std::optional<PciHold> first(std::in_place);
  PciHold second;
  ASSERT_TRUE(take(*first)) << error_;
  EXPECT_FALSE(take(second));
  EXPECT_EQ(error_.rfind("PCI device 0000:03:00.0 is in use already, here or by another program", 0), 0u) << error_;
  first.reset();
  EXPECT_TRUE(take(second));
  EXPECT_TRUE(take(second)) << "its own";
}

/// A program that was refused may live on, and have other devices.
TEST_F(PciHoldTest, ARefusalCostsNoDescriptor) {
  const auto next_descriptor = [] {
    const int fd = open("/", O_PATH | O_CLOEXEC);
    close(fd);
    return fd;
  };
  PciHold first;
  ASSERT_TRUE(take(first)) << error_;
  const int next = next_descriptor();
  PciHold second;
  EXPECT_FALSE(take(second));
  EXPECT_EQ(next_descriptor(), next);
}

TEST_F(PciHoldTest, AChildLeavesItToItsParent) {
  PciHold parents;
  ASSERT_TRUE(take(parents));
  const pid_t child = fork();
  if (child == 0) {
    parents.release();
    PciHold own;
    _exit(take(own) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  PciHold other;
  EXPECT_FALSE(take(other)) << "the child took it away";
}

TEST_F(PciHoldTest, ADeviceThatIsNotThereIsForOthersToSay) {
  PciHold hold;
  EXPECT_TRUE(hold.take("0000:ff:1f.7", error_, dir_.path()));
}

}  // namespace
}  // namespace uroce
