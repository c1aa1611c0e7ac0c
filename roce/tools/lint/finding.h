// What was found, and where findings go.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lint/rules.h"

namespace uroce::lint {

inline constexpr uint32_t kNoFlow = UINT32_MAX;

struct Finding {
  Rule rule{};
  Severity severity{};
  uint64_t frame = 0;       // number in the capture, from 1
  uint32_t flow = kNoFlow;  // Linter::flows()
  std::string text;         // what was seen and what was expected; the reason is in rule_info
};

/// Collects findings. Memory stays bounded: of each rule the first `kept_per_rule` are kept, the others counted.
class Findings {
 public:
  explicit Findings(uint32_t kept_per_rule) : kept_per_rule_(kept_per_rule) {}

  void add(Rule rule, uint64_t frame, uint32_t flow, std::string text) {
    add(rule, rule_info(rule).severity, frame, flow, std::move(text));
  }
  void add(Rule rule, Severity severity, uint64_t frame, uint32_t flow, std::string text) {
    if (ignored_[static_cast<unsigned>(rule)]) return;
    if (softened_[static_cast<unsigned>(rule)]) severity = Severity::kNote;
    const uint64_t seen = counts_[static_cast<unsigned>(rule)]++;
    by_severity_[static_cast<unsigned>(severity)]++;
    if (seen < kept_per_rule_) kept_.push_back({rule, severity, frame, flow, std::move(text)});
  }

  void ignore(Rule rule) { ignored_[static_cast<unsigned>(rule)] = true; }
  /// From now on findings of this rule are notes, whatever their usual severity is.
  void soften(Rule rule) { softened_[static_cast<unsigned>(rule)] = true; }
  /// The findings that were kept; after `sort` in the order of frames.
  const std::vector<Finding>& kept() const { return kept_; }
  uint64_t count(Rule rule) const { return counts_[static_cast<unsigned>(rule)]; }
  uint64_t count(Severity severity) const { return by_severity_[static_cast<unsigned>(severity)]; }
  void sort();

 private:
  uint32_t kept_per_rule_;
  std::vector<Finding> kept_;
  std::array<uint64_t, kRuleCount> counts_{};
  std::array<uint64_t, 3> by_severity_{};
  std::array<bool, kRuleCount> ignored_{};
  std::array<bool, kRuleCount> softened_{};
};

/// A sentence, as printf makes it.
[[gnu::format(printf, 1, 2)]] std::string sentence(const char* format, ...);

}  // namespace uroce::lint
