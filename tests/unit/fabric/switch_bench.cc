// How many frames a second one core gets through the switch: `meson test -C build --benchmark fabric-switch`, or run
// it. 64 ports at 100G, lossless with ECN, 1000-byte packets; each frame that leaves comes back in at another port.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "rig.h"

namespace uroce::fabric::test {
namespace {

constexpr uint16_t kPorts = 64;
constexpr int kRounds = 50'000;

struct Scenario {
  const char* name;
  bool learning;
  bool ecmp;         // every route over four ports
  size_t under_way;  // frames, which sets the length of the queues
};

double run(const Scenario& scenario) {
  SwitchConfig config = ports(kPorts);
  config.learning = scenario.learning;
  config.set_lossless(0x3f);
  for (PriorityConfig& priority : config.priorities) {
    priority.ecn.kmin_bytes = 5'000;
    priority.ecn.kmax_bytes = 50'000;
  }
  BufferPool pool;
  SeededRandom random(1);
  Switch fabric(config, pool, random);
  for (PortId port = 0; port < kPorts; port++) {
    std::vector<PortId> to{port};
    if (scenario.ecmp)
      to = {port, PortId((port + 1) % kPorts), PortId((port + 2) % kPorts), PortId((port + 3) % kPorts)};
    if (!scenario.learning) fabric.add_route(host(port), to);
  }
  Instant now{1'000'000'000};
  std::vector<FabricFrame> arrived(scenario.under_way);
  for (size_t i = 0; i < scenario.under_way; i++) {
    const Bytes bytes = frame_bytes({.from = random.below(kPorts),
                                     .to = random.below(kPorts),
                                     .priority = static_cast<uint8_t>(random.below(4)),
                                     .udp_src_port = static_cast<uint16_t>(0xC000 + i)});
    arrived[i] = pool.allocate(1000);
    std::copy(bytes.begin(), bytes.end(), arrived[i].data);
  }
  uint64_t passed = 0;
  uint16_t ingress = 0;
  const std::clock_t begin = std::clock();  // CPU time: other programs run, too
  for (int round = 0; round < kRounds; round++) {
    // Each port sends a frame in 82 ns; each frame that left comes in again at some port.
    now = now + nanoseconds(82);
    while (!arrived.empty()) {
      ingress = static_cast<uint16_t>((ingress + 1) % kPorts);
      const FabricFrame frame = arrived.back();
      arrived.pop_back();
      const unsigned home = frame.data[5];
      fabric.on_frame(ingress == home ? static_cast<PortId>((home + 9) % kPorts) : ingress, frame, now);
    }
    for (PortId port = 0; port < kPorts; port++) {
      const FabricFrame frame = fabric.poll_transmit(port, now);
      if (!frame) continue;
      if (frame.bytes == kPauseFrameBytes) {
        pool.release(frame);
        continue;
      }
      passed++;
      arrived.push_back(frame);
    }
    fabric.on_time(now);
  }
  const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  uint64_t marked = 0;
  uint64_t dropped = 0;
  for (PortId port = 0; port < kPorts; port++) {
    marked += fabric.counters(port).ecn_marked;
    dropped += fabric.counters(port).dropped();
  }
  const double rate = static_cast<double>(passed) / took;
  std::printf("%-12s %6.2f M frames/s  (%.0f ns a frame; %.1f %% marked, %.1f %% dropped)\n", scenario.name, rate / 1e6,
              1e9 / rate, 100.0 * static_cast<double>(marked) / static_cast<double>(passed),
              100.0 * static_cast<double>(dropped) / static_cast<double>(passed));
  for (const FabricFrame& frame : arrived) pool.release(frame);
  return rate;
}

}  // namespace
}  // namespace uroce::fabric::test

int main() {
  using uroce::fabric::test::run;
  const double plain = run({"routes", false, false, 1024});
  run({"congested", false, false, 16384});
  run({"ecmp", false, true, 1024});
  run({"learning", true, false, 1024});
  // Far below what a machine of today does: ten times slower is a fault.
  return plain > 500'000 ? 0 : 1;
}
