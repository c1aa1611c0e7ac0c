// The same scenario in the simulator and on real ports: the same packets, byte by byte.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "compare.h"
#include "packet/packet.h"

namespace uroce::twin {

// For readers of a failure.
void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

namespace {

size_t sent(const Outcome& outcome, const std::function<bool(const std::vector<uint8_t>&)>& counts) {
  size_t count = 0;
  for (const Seen& seen : outcome) {
    for (const auto& [key, frames] : seen.frames) {
      for (const auto& frame : frames) count += key.sent && counts(frame) ? 1 : 0;
    }
  }
  return count;
}

size_t sent(const Outcome& outcome) {
  return sent(outcome, [](const std::vector<uint8_t>&) { return true; });
}

size_t sent_of_opcode(const Outcome& outcome, uint8_t opcode) {
  return sent(outcome, [opcode](const std::vector<uint8_t>& frame) {
    PacketView packet;
    return parse_frame(frame, packet) == ParseResult::kOk && packet.bth.opcode == opcode;
  });
}

Outcome live_outcome(const Scenario& scenario) {
  std::string error;
  Outcome outcome = on_switch(scenario, error);
  EXPECT_EQ(error, "");
  return outcome;
}

class Twin : public testing::TestWithParam<Scenario> {};

TEST_P(Twin, HasTheSamePackets) {
  const Scenario& scenario = GetParam();
  const Outcome simulated = in_simulator(scenario);
  const Outcome live = live_outcome(scenario);
  for (const Outcome* outcome : {&simulated, &live}) {
    for (const Seen& seen : *outcome) EXPECT_EQ(seen.errors, "");
  }
  EXPECT_EQ(compare(simulated, live), "");
  // The scenario did what it is for.
  const uint64_t again = simulated[0].retransmits + simulated[1].retransmits;
  const auto loses = [](const std::string& faults) {
    return faults.find("drop") != std::string::npos || faults.find("loss") != std::string::npos;
  };
  EXPECT_EQ(again != 0, loses(scenario.faults_from_a) || loses(scenario.faults_from_b));
  EXPECT_EQ(sent_of_opcode(simulated, kOpcodeCnp) != 0, scenario.congestion != CongestionAlgorithm::kNone);
  const bool selective = scenario.flows[0].recovery != LossRecovery::kGoBackN;
  EXPECT_EQ(sent_of_opcode(simulated, kOpcodeSack) != 0, selective);
  EXPECT_GT(sent(simulated), 100u);
  std::printf("%s: %zu packets, %u sent again\n", scenario.name.c_str(), sent(simulated), static_cast<unsigned>(again));
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Twin, testing::ValuesIn(all_scenarios()),
                         [](const auto& row) { return "Nr" + std::to_string(row.index); });

/// One of the two worlds differs in something small.
TEST(PlantedDifference, IsFound) {
  const Scenario original{
      .name = "planted",
      .flows = {{.rounds = {{{WrOpcode::kRdmaWrite, 4000}, {WrOpcode::kRdmaRead, 2000}}, {{WrOpcode::kSend, 9000}}}}},
      .faults_from_a = "drop 1st data psn=0xfffffb",
      .faults_from_b = {}};
  const Outcome live = live_outcome(original);
  ASSERT_EQ(compare(in_simulator(original), live), "");
  const std::pair<const char*, std::function<void(Scenario&)>> differences[] = {
      {"no loss", [](Scenario& s) { s.faults_from_a = ""; }},
      {"the next packet is lost", [](Scenario& s) { s.faults_from_a = "drop 1st data psn=0xfffffc"; }},
      {"it is lost twice", [](Scenario& s) { s.faults_from_a = "drop 1-2 data psn=0xfffffb"; }},
      {"an answer twice", [](Scenario& s) { s.faults_from_b = "duplicate 1st read-response by 0us"; }},
      {"a byte less", [](Scenario& s) { s.flows[0].rounds[1][0].bytes--; }},
      {"a write as a send", [](Scenario& s) { s.flows[0].rounds[0][0].opcode = WrOpcode::kSend; }},
      {"another MTU", [](Scenario& s) { s.flows[0].mtu = 2048; }},
      {"selective repeat", [](Scenario& s) { s.flows[0].recovery = LossRecovery::kSelective; }},
      {"receives that are missing", [](Scenario& s) { s.flows[0].late_receives = true; }},
      {"packets that ask to be marked", [](Scenario& s) { s.congestion = CongestionAlgorithm::kDcqcn; }},
  };
  for (const auto& [name, plant] : differences) {
    Scenario other = original;
    plant(other);
    EXPECT_NE(compare(in_simulator(other), live), "") << name;
  }
}

/// Any one byte, in any frame.
TEST(PlantedDifference, OfOneByteIsFound) {
  const Scenario small{.name = "small",
                       .flows = {{.rounds = {{{WrOpcode::kRdmaWrite, 300}, {WrOpcode::kFetchAdd}}}, .mtu = 256}},
                       .faults_from_a = {},
                       .faults_from_b = {}};
  const Outcome original = in_simulator(small);
  ASSERT_EQ(compare(original, in_simulator(small)), "");
  Outcome other = original;
  for (auto& [key, frames] : other[1].frames) {
    for (auto& frame : frames) {
      for (uint8_t& byte : frame) {
        byte ^= 1;
        EXPECT_NE(compare(original, other), "");
        byte ^= 1;
      }
    }
    frames.pop_back();
    EXPECT_NE(compare(original, other), "");
    frames = original[1].frames.at(key);
  }
}

}  // namespace
}  // namespace uroce::twin
