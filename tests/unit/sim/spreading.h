// How far pauses spread, and what is left for flows that only share the way: the topologies of DCQCN's paper (Zhu et
// al., SIGCOMM 2015) with its rate, buffer and marking.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "network_run.h"
#include "packet/packet.h"

namespace uroce::sim {

inline NetworkConfig paper_config(CongestionAlgorithm algorithm, By by = By::kNic) {
  NetworkConfig config = default_config();
  set_flow_control(config, by);
  config.engine.max_qps = 64;
  config.engine.window_packets = 16384;  // as NICs have none
  config.engine.congestion.algorithm = algorithm;
  config.switches.buffer_bytes = 12'000'000;
  for (fabric::PriorityConfig& priority : config.switches.priorities) {
    priority.ecn = {true, 5'000, 200'000, 0.01, 0};
  }
  return config;
}

/// Endless flows, measurements of them, and the share that each would have in an ideal network.
class Spreading final : private LinkTap {
 public:
  Spreading(const char* topology, const NetworkConfig& config, uint64_t seed)
      : run_(std::make_unique<NetworkRun>(topology, "long", milliseconds(1), seed, config,
                                          TopologyOptions{kRate, 0, microseconds(1)}, large_pieces())) {
    const auto links = static_cast<uint32_t>(run_->network().topology().links.size());
    crossed_by_.resize(2 * links);
    for (uint32_t i = 0; i < links; i++) {
      run_->network().cable(i).a_to_b->set_tap(this, 2 * i);
      run_->network().cable(i).b_to_a->set_tap(this, 2 * i + 1);
    }
  }

  /// Goodput of each flow after `settle`, by the name of its sender.
  std::map<std::string, double> measure(Duration settle, Duration time) {
    World& world = run_->network().world();
    world.run_for(settle);
    const std::vector<double> before = run_->arrived();
    world.run_for(time);
    const std::vector<double> after = run_->arrived();
    std::map<std::string, double> gbps;
    for (size_t i = 0; i < after.size(); i++) {
      gbps[sender(i)] = (after[i] - before[i]) * 8 / static_cast<double>(time.ns);
    }
    return gbps;
  }

  /// Max-min fair shares over the cables that the flows really cross, in Gb/s of payload: the cable with the least for
  /// each of its flows settles those, and so on with the rest.
  std::map<std::string, double> fair_shares() {
    std::map<std::string, double> shares;
    std::vector<double> left(crossed_by_.size(), static_cast<double>(kRate) / 1e9 * 1024 / 1106);
    auto crossed_by = crossed_by_;
    while (true) {
      size_t tightest = 0;
      double least = std::numeric_limits<double>::max();
      for (size_t i = 0; i < crossed_by.size(); i++) {
        if (crossed_by[i].empty()) continue;
        const double each = left[i] / static_cast<double>(crossed_by[i].size());
        if (each < least) {
          least = each;
          tightest = i;
        }
      }
      if (least == std::numeric_limits<double>::max()) return shares;
      const auto decided = crossed_by[tightest];
      for (const auto& [source, frames] : decided) {
        shares[run_->network().host_name(source)] = least;
        for (size_t i = 0; i < crossed_by.size(); i++) {
          if (crossed_by[i].erase(source) != 0) left[i] -= least;
        }
      }
    }
  }

  /// How often cable ends were paused, of all cables between switches or of those from hosts.
  uint64_t pauses(bool of_hosts) {
    uint64_t sum = 0;
    for (const Network::Direction& it : run_->network().directions()) {
      const bool host = run_->network().find_host(it.name.substr(0, it.name.find('>'))) < run_->network().host_count();
      if (host == of_hosts) sum += it.pauses;
    }
    return sum;
  }
  NetworkRun& run() { return *run_; }

 private:
  static constexpr uint64_t kRate = 40'000'000'000;

  /// Four of them are in flight: together as much as the window, so that only pauses stop a sender.
  static FlowOptions large_pieces() {
    FlowOptions flows;
    flows.shape.piece_bytes = 4 << 20;
    return flows;
  }
  std::string sender(size_t flow) { return run_->network().host_name(run_->runner().flows()[flow].spec.from); }

  void on_departure(uint32_t link, Instant /*now*/, std::span<const uint8_t> frame) override {
    PacketView packet;
    if (frame.size() < 500 || parse_frame(frame, packet) != ParseResult::kOk) return;  // data only
    const auto bytes = packet.src_ip.bytes;
    const uint32_t number = (uint32_t{bytes[13]} << 16 | uint32_t{bytes[14]} << 8 | bytes[15]) - 1;
    crossed_by_[link][number]++;
  }

  std::vector<std::map<uint32_t, uint64_t>> crossed_by_;  // by direction: sender, frames
  std::unique_ptr<NetworkRun> run_;
};

}  // namespace uroce::sim
