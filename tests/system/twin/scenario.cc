#include "scenario.h"

namespace uroce::twin {

namespace {

Op write(uint32_t bytes) { return {WrOpcode::kRdmaWrite, bytes}; }
Op write_imm(uint32_t bytes) { return {WrOpcode::kRdmaWriteWithImm, bytes}; }
Op send(uint32_t bytes) { return {WrOpcode::kSend, bytes}; }
Op send_imm(uint32_t bytes) { return {WrOpcode::kSendWithImm, bytes}; }
Op read(uint32_t bytes) { return {WrOpcode::kRdmaRead, bytes}; }
Op add() { return {WrOpcode::kFetchAdd}; }
Op swap() { return {WrOpcode::kCompareSwap}; }

/// Every operation with every size at and around packet boundaries, one at a time.
std::vector<Round> each_size(uint32_t mtu) {
  std::vector<Round> rounds{{add()}, {swap()}};
  for (const uint32_t bytes : {0u, 1u, 3u, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu - 2, 9 * mtu + 5}) {
    for (const auto& op : {write(bytes), write_imm(bytes), send(bytes), send_imm(bytes), read(bytes)}) {
      rounds.push_back({op});
    }
  }
  return rounds;
}

std::vector<Round> repeat(unsigned times, const Round& round) { return std::vector<Round>(times, round); }

Scenario every_operation() {
  Scenario s;
  s.name = "every operation, every size";
  for (const uint32_t mtu : {256u, 1024u, 4096u}) {
    s.flows.push_back({.rounds = each_size(mtu), .mtu = mtu});
    s.flows.push_back({.rounds = each_size(mtu), .from_b = true, .mtu = mtu, .ipv6 = true});
  }
  return s;
}

Scenario pipelines() {
  Scenario s;
  s.name = "many operations at once";
  Op fenced = send(700);
  fenced.flags = kSendFence;
  s.flows.push_back(
      {.rounds = repeat(20, {write(3000), send(10), read(5000), add(), write_imm(2048), swap(), read(0)})});
  s.flows.push_back({.rounds = repeat(20, {read(1024), read(3000), fenced, add(), add(), write(1)}), .from_b = true});
  s.flows.push_back({.rounds = {{write(100 * 1024)}, {read(60 * 1024)}, {send(40 * 1024)}}});
  return s;
}

// Where measured round trips decide when to retransmit, these must be alike in both worlds: a cable whose delay is much
// longer than the machine's.
constexpr unsigned kLongCable_us = 500;

/// Each kind of packet is lost, once and twice, at the beginning, inside and at the end of a message; alone, several
/// together, and where only a timer helps. PSNs tell the flow: see the comments at the rounds.
Scenario losses(LossRecovery recovery) {
  Scenario s;
  s.name = "go-back-N: exact losses";
  if (recovery == LossRecovery::kSelective) {
    s.name = "selective repeat: exact losses";
    s.cable_us = kLongCable_us;
  }
  // A round is 10 packets: 4, 3, 1, 2. The first begins with 0xfffffa, the second with 4, the third with 14, ...
  s.flows.push_back({.rounds = repeat(14, {write(4000), send(3000), write(1), send(2048)}), .recovery = recovery});
  s.faults_from_a =
      "drop 1st write psn=0xfffffa; drop 1-2 write psn=5; drop 1st write psn=17; drop 1st write psn=31;"
      "drop 1st send psn=43; drop 1st write psn=55; drop 1st write psn=57; drop 1st send psn=59;"
      "drop 1st write psn=74; drop 1st write psn=75; drop 1st write psn=76; duplicate 1st write psn=105 by 0us;";
  s.faults_from_b = "drop 1st nak psn=5; drop 1st ack psn=93; duplicate 1st ack psn=103 by 0us;";
  // A round is 8 PSNs: 4, 1, 2, 1.
  s.flows.push_back({.rounds = repeat(10, {read(4000), add(), read(2000), swap()}), .recovery = recovery});
  s.faults_from_a +=
      "drop 1st read-request psn=0x1000; drop 1st atomic psn=0x1024; drop 1-2 read-request psn=0x1038;"
      "duplicate 1st atomic psn=0x104c by 0us;";
  s.faults_from_b +=
      "drop 1st read-response psn=0x1009; drop 1st read-response psn=0x1010; drop 1st read-response psn=0x101b;"
      "drop 1st atomic-ack psn=0x102c; drop 1st atomic-ack psn=0x1037; drop 1-2 read-response psn=0x1041;"
      "duplicate 1st read-response psn=0x1049 by 0us;";
  // 12 packets.
  s.flows.push_back({.rounds = repeat(6, {write(12 * 1024)}), .recovery = recovery});
  s.faults_from_a +=
      "drop 1st write psn=0x2003; drop 1st write psn=0x2010; drop 1st write psn=0x2011; drop 1st write psn=0x2023;"
      "drop 1-2 write psn=0x2024; duplicate 1st write psn=0x2035 by 0us;";
  s.flows.push_back({.rounds = repeat(6, {read(12 * 1024)}), .from_b = true, .recovery = recovery});
  s.faults_from_a +=
      "drop 1st read-response psn=0x3003; drop 1st read-response psn=0x300c; drop 1st read-response psn=0x3023;"
      "duplicate 1st read-response psn=0x3026 by 0us";
  s.faults_from_b += "drop 1-2 read-request psn=0x3030";
  return s;
}

/// The switch and the simulator use the same random numbers.
Scenario chance(LossRecovery recovery) {
  const bool selective = recovery == LossRecovery::kSelective;
  Scenario s;
  s.name = selective ? "selective repeat: random losses" : "go-back-N: random losses";
  s.flows.push_back({.rounds = repeat(60, {write(9000), read(7000), send(3000), add()}), .recovery = recovery});
  if (selective) s.cable_us = kLongCable_us;
  s.faults_from_a = "loss 3%; corrupt 1%";
  s.faults_from_b = "loss 3%";
  return s;
}

Scenario recognition() {
  Scenario s;
  s.name = "peers that find out that both know selective repeat";
  s.cable_us = kLongCable_us;
  s.flows.push_back({.rounds = repeat(6, {write(8000), read(8000)}), .recovery = LossRecovery::kAuto});
  s.flows.push_back({.rounds = repeat(6, {send(8000)}), .from_b = true, .recovery = LossRecovery::kAuto, .ipv6 = true});
  s.faults_from_a = "drop 1st write psn=0xfffffb; drop 1st write psn=12; drop 1-2 write psn=29";
  s.faults_from_b = "drop 1st send psn=0x1001; drop 1st send psn=0x1013; drop 1st read-response psn=52";
  return s;
}

Scenario not_ready() {
  Scenario s;
  s.name = "no receive posted";
  s.flows.push_back({.rounds = repeat(4, {send(3000), write_imm(5000), send_imm(1)}), .late_receives = true});
  s.flows.push_back({.rounds = repeat(3, {write_imm(700)}), .from_b = true, .late_receives = true});
  s.faults_from_b = "drop 1st rnr-nak psn=0xfffffa";
  return s;
}

Scenario congestion() {
  Scenario s;
  s.name = "marked packets, DCQCN";
  s.cable_us = kLongCable_us;
  s.congestion = CongestionAlgorithm::kDcqcn;
  s.flows.push_back({.rounds = repeat(8, {write(12 * 1024), read(12 * 1024)})});
  s.faults_from_a = "mark 5th data; mark 40th data";
  s.faults_from_b = "mark 7-9 data";
  return s;
}

}  // namespace

std::string impairments(const Scenario& scenario, bool from_b) {
  std::string text = from_b ? scenario.faults_from_b : scenario.faults_from_a;
  if (scenario.cable_us != 0)
    text += (text.empty() ? "" : "; ") + ("delay all by " + std::to_string(scenario.cable_us) + "us");
  return text;
}

std::vector<Scenario> all_scenarios() {
  return {every_operation(),
          pipelines(),
          losses(LossRecovery::kGoBackN),
          losses(LossRecovery::kSelective),
          chance(LossRecovery::kGoBackN),
          chance(LossRecovery::kSelective),
          recognition(),
          not_ready(),
          congestion()};
}

}  // namespace uroce::twin
