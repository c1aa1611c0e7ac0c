// Takes the findings of the judges of one channel: each finding belongs to the flow of the side that is at fault.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lint/finding.h"
#include "uroce/psn.h"

namespace uroce::lint {

class Reporter {
 public:
  /// `findings` outlives the reporter.
  Reporter(Findings& findings, uint32_t request_flow) : findings_(findings), request_flow_(request_flow) {}

  /// The flow of the responses, once it is known.
  void set_response_flow(uint32_t flow) { response_flow_ = flow; }

  void blame_requester(Rule rule, uint64_t frame, std::string text) {
    findings_.add(rule, frame, request_flow_, std::move(text));
  }
  void blame_responder(Rule rule, uint64_t frame, std::string text) {
    findings_.add(rule, frame, response_flow_, std::move(text));
  }

 private:
  Findings& findings_;
  uint32_t request_flow_;
  uint32_t response_flow_ = kNoFlow;
};

// Convert values for %u and %llu.
constexpr unsigned val(Psn psn) { return psn.value(); }
constexpr unsigned long long long_val(uint64_t number) { return number; }

}  // namespace uroce::lint
