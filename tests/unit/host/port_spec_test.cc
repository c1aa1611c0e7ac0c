#include "host/port_spec.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

PortSpec parsed(const std::string& text) {
  std::string error;
  const auto spec = parse_port_spec(text, error);
  EXPECT_TRUE(spec) << text << ": " << error;
  return spec.value_or(PortSpec{});
}

std::string refused(const std::string& text) {
  std::string error;
  EXPECT_FALSE(parse_port_spec(text, error)) << text;
  EXPECT_EQ(error.find('\n'), std::string::npos) << "one line: " << error;
  return error;
}

TEST(PortSpec, NothingIsTheSegment) {
  for (const char* text : {"", "shmlan"}) {
    const PortSpec spec = parsed(text);
    EXPECT_EQ(spec.kind, PortKind::kSegment) << text;
    EXPECT_EQ(spec.wire, "") << text;
  }
}

TEST(PortSpec, SegmentsHaveNames) {
  EXPECT_EQ(parsed("network").kind, PortKind::kSegment);
  EXPECT_EQ(parsed("network").wire, "") << "the same one";
  EXPECT_TRUE(parsed("network").leads_out);
  EXPECT_FALSE(parsed("shmlan").leads_out);
  EXPECT_EQ(parsed("shmlan:blue").kind, PortKind::kSegment);
  EXPECT_EQ(parsed("shmlan:blue").wire, "blue");
  EXPECT_NE(refused("shmlan:").find("name of a segment"), std::string::npos);
  refused("shmlan:../x");
  refused("shmlan:" + std::string(33, 'x'));
  refused("shmlanblue");
}

/// These were ports once: the error names the driver to use instead.
TEST(PortSpec, WiresOfNetMemifAreItsDriversDevices) {
  for (const char* gone : {"memif", "memif:blue"}) EXPECT_NE(refused(gone).find("net_memif"), std::string::npos);
}

TEST(PortSpec, SwitchesHaveNames) {
  EXPECT_EQ(parsed("switch:blue").kind, PortKind::kSwitch);
  EXPECT_EQ(parsed("switch:blue").wire, "blue");
  EXPECT_EQ(parsed("switch").wire, kDefaultSwitchName);
  EXPECT_NE(refused("switch:").find("name of a switch"), std::string::npos);
  refused("switch:../x");
  refused("switch:" + std::string(33, 'x'));
  refused("switchblue");
}

TEST(PortSpec, VirtualDevicesKeepTheirArguments) {
  const PortSpec spec = parsed("net_af_packet1,iface=eth0,qdisc_bypass=0");
  EXPECT_EQ(spec.kind, PortKind::kVirtual);
  EXPECT_EQ(spec.device, "net_af_packet1");
  EXPECT_EQ(spec.driver, "net_af_packet");
  EXPECT_EQ(spec.netdev, "eth0");
  EXPECT_EQ(spec.arg("qdisc_bypass"), "0");
  EXPECT_EQ(spec.arg("iface"), "eth0");
  EXPECT_FALSE(spec.arg("face"));
  EXPECT_FALSE(spec.arg("qpairs"));
}

TEST(PortSpec, ADeviceGetsANumber) { EXPECT_EQ(parsed("net_null").device, "net_null0"); }

TEST(PortSpec, ATapInterfaceGetsAName) {
  EXPECT_EQ(parsed("net_tap3").netdev, "dtap3");
  EXPECT_EQ(parsed("net_tap3").arg("iface"), "dtap3");
  EXPECT_EQ(parsed("net_tap0,iface=mine").netdev, "mine");
}

TEST(PortSpec, AnInterfaceMustBeNamed) {
  EXPECT_NE(refused("net_af_packet0").find("iface="), std::string::npos);
  EXPECT_NE(refused("net_af_xdp0,queue_count=1").find("iface="), std::string::npos);
}

TEST(PortSpec, PciAddresses) {
  EXPECT_EQ(parsed("0000:03:00.0").device, "0000:03:00.0");
  EXPECT_EQ(parsed("af:1f.7").device, "0000:af:1f.7");
  EXPECT_EQ(parsed("af:1f.7").kind, PortKind::kPci);
  for (const char* text : {"03:00", "03:00.8", "0000:03:00.0.0", "g3:00.0", "00000:03:00.0"}) refused(text);
}

TEST(PortSpec, UnknownDriversAreNamedWithTheKnown) {
  const std::string error = refused("net_foo0,iface=eth0");
  EXPECT_NE(error.find("net_foo0"), std::string::npos);
  EXPECT_NE(error.find("net_af_packet"), std::string::npos);
  refused("net_tapx");
  refused("eth0");
}

}  // namespace
}  // namespace uroce
