// What two hosts do on a bad cable, said once: the simulator carries it out, and so do two real ports.
#pragma once

#include <string>
#include <vector>

#include "congestion/config.h"
#include "transport/loss_recovery.h"
#include "uroce/work_request.h"

namespace uroce::twin {

struct Op {
  WrOpcode opcode;
  uint32_t bytes = 8;
  uint8_t flags = 0;  // SendFlags besides kSendSignaled
};

/// Posted together; the next round follows when all have completed.
using Round = std::vector<Op>;

/// A reliable queue pair, one end of which sends requests.
struct Flow {
  std::vector<Round> rounds;
  bool from_b = false;
  uint32_t mtu = 1024;
  LossRecovery recovery = LossRecovery::kGoBackN;
  bool late_receives = false;  // the other end posts a receive only after one was missing
  bool ipv6 = false;
};

struct Scenario {
  std::string name;
  std::vector<Flow> flows;
  std::string faults_from_a;  // as in fabric/impairments.h
  std::string faults_from_b;
  unsigned cable_us = 0;  // of the cable in each direction, besides that of the world
  CongestionAlgorithm congestion = CongestionAlgorithm::kNone;
};

/// The faults of one direction and the cable's delay.
std::string impairments(const Scenario& scenario, bool from_b);

/// All scenarios of the test. PSNs of flow n begin at first_psn(n) in either direction.
std::vector<Scenario> all_scenarios();
constexpr uint32_t first_psn(size_t flow) { return flow == 0 ? 0xFFFFFA : static_cast<uint32_t>(flow) * 0x1000; }

}  // namespace uroce::twin
