// The device of an uplink between a wire that the test carries by hand and a program of its host.
#include "dpdk/uplink_nic.h"

#include <gtest/gtest.h>

#include "node.h"
#include "temporary_directory.h"
#include "uroce/memory_port.h"

namespace uroce::test {
namespace {

using segment::test::mac_of;
using segment::test::Node;

class HandWire final : public Nic {
 public:
  explicit HandWire(MemoryPort& port) : port_(port) {}
  Port& port() override { return port_; }
  bool on_turn(Instant /*now*/) override { return false; }
  bool tx_pending() const override { return false; }
  bool link_up() const override { return true; }
  uint32_t link_speed_mbps() const override { return 1000; }
  void for_each_counter(const Counter& /*f*/) const override {}
  void abandon() override {}

 private:
  MemoryPort& port_;
};

TEST(UplinkNic, IsSilentWhileAnyPriorityIsPaused) {
  const TemporaryRuntimeDir dir;
  PortPlan plan;
  plan.identity.mac = mac_of(1);
  plan.max_frame_bytes = 4224;
  MemoryPort wire;
  UplinkConfig config;
  config.host = "host";
  std::string error;
  const auto device = make_uplink(std::make_unique<HandWire>(wire), plan, config, error);
  ASSERT_TRUE(device) << error;
  Node program((dir.path() / "shmlan").string(), segment::test::record_of("host", 1));
  auto frame = segment::test::roce_frame(segment::test::kFarAway, 0x17, 100);
  std::copy_n(mac_of(1).bytes.begin(), 6, frame.begin() + 6);
  const auto turn = [&] {
    program.turn();
    device->on_turn(program.now);
  };
  turn();
  for (int i = 0; i < 4; i++) turn();
  ASSERT_TRUE(program.send(frame));
  for (int i = 0; i < 4; i++) turn();
  ASSERT_EQ(wire.discard(), 1u);
  for (int paused = 1; paused < 256; paused = paused < 128 ? paused * 2 : paused + 127) {
    device->obey_pauses(static_cast<uint8_t>(paused));
    ASSERT_TRUE(program.send(frame));
    turn();
    EXPECT_EQ(wire.sent(), 0u) << paused;
    device->obey_pauses(0);
    turn();
    EXPECT_EQ(wire.discard(), 1u) << paused;
  }
}

}  // namespace
}  // namespace uroce::test
