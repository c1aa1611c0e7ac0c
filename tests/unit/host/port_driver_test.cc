// The table of drivers: rows are found by whole names and by names of devices.
#include "host/port_driver.h"

#include <gtest/gtest.h>

#include <sstream>

namespace uroce::test {
namespace {

TEST(PortDriverTest, EachThatAPortNamesIsFoundByItsDevice) {
  std::istringstream names(port_driver_names());
  int count = 0;
  for (std::string name; std::getline(names >> std::ws, name, ','); count++) {
    for (const char* number : {"", "0", "17", "_w0"}) {
      const PortDriver* driver = driver_of_device(name + number);
      if (std::string_view(number) == "_w0") {
        EXPECT_EQ(driver, nullptr) << name << number;
        continue;
      }
      ASSERT_NE(driver, nullptr) << name << number;
      EXPECT_EQ(driver->name, name);
      EXPECT_EQ(driver, &port_driver(name));
    }
    const std::string example = port_driver(name).example;
    EXPECT_EQ(driver_of_device(example.substr(0, example.find(','))), &port_driver(name));
  }
  EXPECT_EQ(count, 11);
}

TEST(PortDriverTest, AnotherIsAnOrdinaryCard) {
  for (const char* name : {"mlx5_pci", "net_virtio_pci", "net_tap0", "net_ta", ""}) {
    EXPECT_EQ(port_driver(name).netdev, NetdevUse::kNone) << name;
    EXPECT_EQ(port_driver(name).mtu_most, 0u) << name;
    EXPECT_FALSE(port_driver(name).is_memory) << name;
  }
}

TEST(PortDriverTest, WhatOnlySomeAre) {
  EXPECT_TRUE(port_driver("net_virtio").names_vlans);
  EXPECT_TRUE(port_driver("net_virtio_user").names_vlans);
  EXPECT_FALSE(port_driver("net_vhost").names_vlans);
  EXPECT_EQ(driver_of_device("net_virtio0"), nullptr) << "a card's driver is no virtual device";
  EXPECT_TRUE(port_driver("net_memif").is_memory);
  EXPECT_TRUE(port_driver("net_shmlan").is_memory);
  EXPECT_TRUE(port_driver("net_af_packet").hears_others);
  EXPECT_FALSE(port_driver("net_af_xdp").hears_others);
  EXPECT_EQ(port_driver("net_udp").netdev, NetdevUse::kSockets);
  EXPECT_TRUE(port_driver("net_udp").wakes);
  EXPECT_FALSE(port_driver("net_af_packet").wakes);
}

}  // namespace
}  // namespace uroce::test
