// A switch with frames at hand, driven by the test's own clock.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "bytes.h"
#include "fabric/buffer_pool.h"
#include "fabric/switch.h"
#include "roce_frame.h"

namespace uroce::fabric::test {

using uroce::test::Bytes;

/// The host behind port `n`.
inline MacAddress host(unsigned n) {
  return {{0x52, 0x54, 0, 0, static_cast<uint8_t>(n >> 8), static_cast<uint8_t>(n)}};
}

struct FrameSpec {
  unsigned from = 0;  // hosts
  unsigned to = 1;
  uint8_t priority = 0;  // by DSCP
  Ecn ecn = Ecn::kEct0;
  uint16_t udp_src_port = 0xC123;
  uint32_t bytes = 1000;  // of the whole frame
  uint32_t psn = 0;
  uint32_t qp = 0x12;
  bool ipv6 = false;
  uint16_t vlan_id = 0;
  uint8_t pcp = 0;
  uint8_t opcode = make_opcode(Service::kRc, kOpSendOnly);
};

/// A valid packet of `bytes` bytes.
inline Bytes frame_bytes(const FrameSpec& spec) {
  Route path = spec.ipv6 ? uroce::test::ipv6_path() : uroce::test::ipv4_path();
  path.src_mac = host(spec.from);
  path.dst_mac = host(spec.to);
  path.src_ip.bytes[15] = static_cast<uint8_t>(spec.from + 1);
  path.dst_ip.bytes[15] = static_cast<uint8_t>(spec.to + 1);
  path.traffic_class = static_cast<uint8_t>((spec.priority << 5) | static_cast<uint8_t>(spec.ecn));
  path.udp_src_port = spec.udp_src_port;
  path.vlan_id = spec.vlan_id;
  path.pcp = spec.pcp;
  Bth bth;
  bth.opcode = spec.opcode;
  bth.dest_qp = spec.qp;
  bth.psn = Psn(spec.psn);
  Bytes body;
  uroce::test::append(body, bth);
  body.resize(spec.bytes - RouteHeader(path).bytes() - kIcrcBytes);
  return uroce::test::frame_of(path, body);
}

class Rig : public Switch::Listener {
 public:
  explicit Rig(const SwitchConfig& config, uint64_t seed = 1, uint32_t buffer_bytes = BufferPool::kDefaultBufferBytes)
      : pool(buffer_bytes), random(seed) {
    EXPECT_EQ(check_config(config), "");
    fabric = std::make_unique<Switch>(config, pool, random, this);
    for (size_t port = 0; port < config.ports.size(); port++) {
      const auto id = static_cast<PortId>(port);
      EXPECT_TRUE(fabric->add_route(host(id), {&id, 1}));
    }
  }
  ~Rig() override {
    fabric.reset();
    EXPECT_EQ(pool.in_use(), 0u) << "frames were lost by the switch";
  }

  void on_port_ready(PortId port, Instant /*when*/) override { ready.push_back(port); }

  FabricFrame make(const Bytes& bytes) {
    const FabricFrame frame = pool.allocate(static_cast<uint32_t>(bytes.size()));
    EXPECT_TRUE(frame);
    std::copy(bytes.begin(), bytes.end(), frame.data);
    return frame;
  }
  void send(PortId port, const Bytes& bytes) { fabric->on_frame(port, make(bytes), now); }
  void send(const FrameSpec& spec) { send(static_cast<PortId>(spec.from), frame_bytes(spec)); }
  void pause(PortId port, uint8_t priorities, uint16_t quanta) {
    Pause pause;
    pause.src_mac = host(port);
    pause.priorities = priorities;
    pause.quanta.fill(quanta);
    Bytes bytes(kPauseFrameBytes);
    encode_pause(bytes, pause);
    send(port, bytes);
  }
  /// The next frame that leaves; empty when there is none.
  Bytes take(PortId port) {
    const FabricFrame frame = fabric->poll_transmit(port, now);
    if (!frame) return {};
    Bytes bytes(frame.data, frame.data + frame.bytes);
    pool.release(frame);
    return bytes;
  }
  size_t take_all(PortId port) {
    size_t count = 0;
    while (!take(port).empty()) count++;
    return count;
  }
  uint64_t drops(PortId port, Drop why) const { return fabric->counters(port).drops[static_cast<unsigned>(why)]; }

  Instant now{1'000'000'000};
  BufferPool pool;
  SeededRandom random;
  std::unique_ptr<Switch> fabric;
  std::vector<PortId> ready;
};

inline SwitchConfig ports(size_t count) {
  SwitchConfig config;
  config.ports.resize(count);
  return config;
}

inline uint8_t traffic_class(const Bytes& frame) { return inspect(frame).traffic_class; }
inline Ecn ecn(const Bytes& frame) { return inspect(frame).ecn(); }

}  // namespace uroce::fabric::test
