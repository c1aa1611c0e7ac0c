#include "oracle/rc_pairs.h"

#include <algorithm>

#include "base/check.h"
#include "transport/timing.h"

namespace uroce::oracle {

RcPairs::RcPairs(MixedBed& bed, const MixedOptions& options, SeededRandom& random, Verdict& verdict)
    : options_(options),
      verdict_(verdict),
      a_(bed.a, options.trace ? &bed.trace_a : nullptr, options, random, verdict),
      b_(bed.b, options.trace ? &bed.trace_b : nullptr, options, random, verdict) {
  RcHost* const hosts[kSides] = {&a_, &b_};
  for (uint32_t i = 0; i < options.qps; i++) {
    pairs_.emplace_back(bed, hosts, options, ops_of_each_end(options), random, verdict);
  }
}

sim::Side RcPairs::side_of(size_t pair, unsigned side) {
  sim::Side s = host(side).side();
  s.qp = &pairs_[pair].end(side).qp();
  return s;
}

/// Once, twice, then four times the timeout for each try.
Duration RcPairs::retry_budget(const Qp& qp) const {
  const QpAttributes& attributes = pairs_[0].qp_options().attributes;
  const Duration once = ack_timeout(qp.attributes().timeout);
  Duration budget{once.ns * 4 * (attributes.retry_cnt + 1) + milliseconds(5).ns};
  // What cannot leave is not late.
  for (const fabric::PauseStorm& storm : options_.impairments.pause_storms) budget.ns += storm.length.ns;
  if (options_.has(Fault::kPort)) budget.ns += milliseconds(100).ns;
  if (options_.has(Fault::kMemory)) budget.ns += milliseconds(100).ns;
  return budget;
}

RcEnd* RcPairs::end_of(unsigned side, uint32_t qpn) {
  const auto at =
      std::find_if(pairs_.begin(), pairs_.end(), [&](auto& pair) { return pair.end(side).qp().qpn() == qpn; });
  return at == pairs_.end() ? nullptr : &at->end(side);
}

void RcPairs::program(unsigned side) {
  RcHost& here = host(side);
  for (const Completion& c : here.side().sent()) {
    completions_++;
    if (RcEnd* end = end_of(side, c.qp_num)) end->on_sent(c);
  }
  for (const Completion& c : here.side().received()) {
    if (RcEnd* end = end_of(side, c.qp_num)) end->on_received(c);
  }
  if (verdict_.failed()) return;
  for (size_t i = 0; i < here.receivers(); i++) {
    // A queue of its own, of a QP that is in error, would give each receive back at once.
    if (here.srq() != nullptr || pairs_[i].end(side).qp().state() == QpState::kRts)
      here.receiver(i).post(false, verdict_);
  }
  for (RcPair& pair : pairs_) pair.end(side).post_some();
}

void RcPairs::drain() {
  for (unsigned s = 0; s < kSides; s++) program(s);
}

bool RcPairs::done() const {
  if (verdict_.failed()) return true;
  return std::all_of(pairs_.begin(), pairs_.end(),
                     [](const RcPair& pair) { return pair.end(0).done() && pair.end(1).done(); });
}

void RcPairs::check_end() {
  ensure(done(), "the end is looked at when it has come");
  for (unsigned s = 0; s < kSides; s++) {
    for (RcPair& pair : pairs_) {
      pair.end(s).check_memory();
      if (pair.end(s).qp().state() != QpState::kRts) verdict_.fail("a QP is not in RTS at the end");
    }
    host(s).check_end();
  }
}

void RcPairs::add_to(MixedReport& report) const {
  for (const RcHost* host : {&a_, &b_}) {
    report.leaps += host->share().leaps.size();
    if (verdict_.failed()) report.failure += host->refusals();
  }
  for (const RcPair& pair : pairs_) {
    for (unsigned s = 0; s < kSides; s++) {
      report.bytes += pair.end(s).posted_bytes();
      report.messages_received += pair.end(s).received();
    }
  }
}

std::string RcPairs::states() const {
  std::string text;
  for (unsigned s = 0; s < kSides; s++) {
    for (const RcPair& pair : pairs_) {
      if (!pair.end(s).done()) text += "\n  " + pair.end(s).state();
    }
  }
  return text;
}

}  // namespace uroce::oracle
