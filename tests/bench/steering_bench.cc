// What a frame costs that no flow takes, by how many flows there are: a stranger's frames, of which a program with
// flows gets whatever goes to everybody.
//
//   steering_bench
//
// Each row is a number of flows, spread over one mask (UDP destination ports of one address), and over sixteen (as many
// prefixes of addresses beside the port). The best of several runs counts.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "engine/steering.h"
#include "transport/counters.h"

namespace {

using namespace uroce;

constexpr uint32_t kFrames = 2000;
constexpr int kRuns = 20;

FlowRule flow_of(uint32_t number, uint32_t masks) {
  FlowRule flow;
  flow.match.mask.layers = flow.match.value.layers = kFlowUdp;
  std::memset(flow.match.mask.dst_port, 0xFF, 2);
  flow.match.value.dst_port[0] = static_cast<uint8_t>(number >> 8);
  flow.match.value.dst_port[1] = static_cast<uint8_t>(number);
  const uint32_t bits = 32 - number % masks;
  const uint32_t prefix = bits == 32 ? ~uint32_t{0} : ~(~uint32_t{0} >> bits);
  for (uint32_t i = 0; i < 4; i++) {
    flow.match.mask.dst_ip[i] = static_cast<uint8_t>(prefix >> (24 - 8 * i));
    flow.match.value.dst_ip[i] = flow.match.mask.dst_ip[i] & uint8_t{10};
  }
  return flow;
}

/// UDP over IPv4 to an address that no flow has.
std::vector<uint8_t> stranger() {
  std::vector<uint8_t> frame(60);
  std::memset(frame.data(), 0xFF, 6);
  frame[12] = 0x08;
  frame[14] = 0x45;
  frame[17] = 46;
  frame[23] = 17;
  frame[26] = frame[30] = 192;
  frame[36] = frame[37] = 7;
  return frame;
}

double ns_per_frame(uint32_t flows, uint32_t masks) {
  Loopback loopback(2048);
  QpSchedule schedule(1);
  Counters counters;
  Steering steering(loopback, schedule, counters, nullptr);
  for (uint32_t i = 0; i < flows; i++) steering.add(flow_of(i, masks));
  const std::vector<uint8_t> bytes = stranger();
  const RxFrame frame{bytes.data(), static_cast<uint32_t>(bytes.size())};
  double best = 1e9;
  for (int run = 0; run < kRuns; run++) {
    const uint32_t frames = flows > 1000 ? kFrames / 10 : kFrames;
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < frames; i++) {
      if (steering.on_frame(frame, Instant{0})) std::abort();
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / frames);
  }
  return best;
}

}  // namespace

int main() {
  std::printf("%8s %16s %16s\n", "flows", "one mask, ns", "16 masks, ns");
  for (const uint32_t flows : {0u, 1u, 1000u, 16000u})
    std::printf("%8u %16.1f %16.1f\n", flows, ns_per_frame(flows, 1), ns_per_frame(flows, 16));
  return 0;
}
