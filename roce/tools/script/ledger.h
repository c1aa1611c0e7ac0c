// Compares the engine's counters with the timeline: what the engine counts must be what the script saw.
//
// Traffic, answers, retransmissions and errors are counted here from the packets and completions themselves. Everything
// else that explains a loss or a fault (drops, duplicates, NAKs, timeouts) has to be mentioned by the script: a counter
// that it does not mention must be 0 at the end.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "script/packets.h"
#include "script/testbench.h"

namespace uroce::script {

class Ledger {
 public:
  void on_injected() { injected_++; }
  void on_sent(Testbench& testbench, std::span<const uint8_t> frame);
  void on_completion(const Completion& completion);
  void on_mentioned(const std::string& counter, int64_t value) { mentioned_[counter] = value; }

  uint64_t counter(Testbench& testbench, const std::string& name) const;
  /// At the end: the counters that do not fit.
  std::vector<FieldCheck> differences(Testbench& testbench) const;
  /// "name value, ..." for all counters that are not 0, without those of traffic.
  std::string nonzero(Testbench& testbench) const;

 private:
  struct Sender {
    bool any = false;
    Psn next;  // the first PSN that was never sent
  };
  void on_request(ScriptQp& qp, const PacketView& view);

  uint64_t injected_ = 0;
  uint64_t roce_sent_ = 0;
  std::map<std::string, uint64_t> seen_;
  std::map<std::string, int64_t> mentioned_;
  std::map<uint32_t, Sender> senders_;
};

}  // namespace uroce::script
