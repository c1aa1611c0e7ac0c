// A run over reliable connections.
#include <algorithm>
#include <memory>

#include "oracle/rc_run.h"

namespace uroce::oracle {

RcRun::RcRun(const MixedOptions& options)
    : options_(options),
      random_(options.seed),
      incident_random_((options.seed << 8) + 0x14C1D),
      engine_random_((options.seed << 8) + 0xE6E01),
      clock_random_((options.seed << 8) + 0xC70C7),
      memory_random_((options.seed << 8) + 0x3E301),
      spoofer_((options.seed << 8) + 0x5F00F) {
  bed_ = make_testbed(options, random_);
  sim::Host* hosts[kSides] = {&bed_->a, &bed_->b};
  for (unsigned s = 0; s < kSides; s++) {
    sim::Side& side = sides_[s];
    side.host = hosts[s];
    make_objects(s);
    shares_[s].source = side.buffer(options.max_bytes + 65536, kLocalWrite);
    for (uint32_t i = 0; i < shares_[s].source.size; i++) {
      shares_[s].source.data()[i] = static_cast<uint8_t>(random_.next_u32());
    }
    shares_[s].counter = side.buffer(8);
    std::fill_n(shares_[s].counter.data(), 8, uint8_t{0});
    if (random_.below(3) == 0) {
      const uint32_t slots = options.has(Fault::kReceives) ? 1 + random_.below(4) : 4 + random_.below(28);
      srq_slots_[s] = slots;
      srqs_[s] = side.engine().objects().create_srq(side.pd, slots, 4, nullptr);
      receivers_[s].push_back(std::make_unique<Receiver>(side, srqs_[s], slots, options.max_bytes, random_));
    }
  }
  wrong_ = options.impairments;
  wrong_.duplicate_span = wrong_.reorder_span;
  const bool loses = options.loses();
  if (loses) bed_->cable.set({});
  for (uint32_t i = 0; i < options.qps; i++) make_pair(std::max<uint64_t>(options.ops / (2 * options.qps), 1));
  // A lost ARP request costs more time than these QPs' retry budgets: addresses are resolved before frames are lost.
  if (loses && !bed_->world.run_until_idle()) verdict_.fail("address resolution never ended");
  bed_->cable.set(wrong_);
  for (sim::Host* host : hosts) host->port().set_rx_frames(options.rx_frames);
  draw_incidents();
  for (unsigned s = 0; s < kSides; s++) sides_[s].host->set_program([this, s] { program(s); });
}

void RcRun::make_pair(uint64_t ops_each) {
  sim::QpOptions qp = draw_qp(options_, random_);
  qp.cap = {kQueueDepth, 32, 4, 4, 256};
  qp.srq_a = srqs_[0];
  qp.srq_b = srqs_[1];
  bed_->add_qps(sides_[0], sides_[1], qp);
  for (unsigned s = 0; s < kSides; s++) {
    if (srqs_[s] == nullptr) {
      const uint32_t slots = 1 + random_.below(options_.has(Fault::kReceives) ? 2 : 24);
      receivers_[s].push_back(std::make_unique<Receiver>(sides_[s], nullptr, slots, options_.max_bytes, random_));
    }
    ends_[s].push_back(std::make_unique<RcEnd>(sides_[s], *receivers_[s].back(), shares_[s], options_,
                                               random_.next_u64(), ops_each, verdict_));
  }
  pairs_.push_back({qp});
  ends_[0].back()->set_peer(*ends_[1].back());
  ends_[1].back()->set_peer(*ends_[0].back());
}

void RcRun::program(unsigned side) {
  const auto end_of = [&](const Completion& c) {
    const auto at = std::find_if(ends_[side].begin(), ends_[side].end(),
                                 [&](const auto& end) { return end->qp().qpn() == c.qp_num; });
    return at == ends_[side].end() ? nullptr : at->get();
  };
  for (const Completion& c : sides_[side].sent()) {
    completions_++;
    if (RcEnd* end = end_of(c)) end->on_sent(c);
  }
  for (const Completion& c : sides_[side].received()) {
    if (RcEnd* end = end_of(c)) end->on_received(c);
  }
  if (verdict_.failed()) return;
  for (size_t i = 0; i < receivers_[side].size(); i++) {
    // A queue of its own, of a QP that is in error, would give each receive back at once.
    if (srqs_[side] != nullptr || ends_[side][i]->qp().state() == QpState::kRts)
      receivers_[side][i]->post(false, verdict_);
  }
  for (auto& end : ends_[side]) end->post_some();
}

bool RcRun::done() const {
  if (verdict_.failed()) return true;
  for (const auto& side : ends_) {
    if (!std::all_of(side.begin(), side.end(), [](const auto& end) { return end->done(); })) return false;
  }
  return true;
}

void RcRun::check_end() {
  for (unsigned s = 0; s < kSides; s++) {
    for (auto& end : ends_[s]) {
      end->check_memory();
      if (end->qp().state() != QpState::kRts) verdict_.fail("a QP is not in RTS at the end");
    }
    uint64_t count;
    std::memcpy(&count, shares_[s].counter.data(), 8);
    const HostShare& share = shares_[s];
    if (count > share.counter_adds || count + share.counter_unsure < share.counter_adds) {
      verdict_.fail("the shared counter stands at %llu after %llu FETCH_ADDs, the end of %llu of which is not known",
                    static_cast<unsigned long long>(count), static_cast<unsigned long long>(share.counter_adds),
                    static_cast<unsigned long long>(share.counter_unsure));
    }
    const bool errors = !sides_[s].host->observer().error_completions.empty();
    if (errors && !options_.may_fail()) verdict_.fail("an error completion was reported");
    if (!sides_[s].host->observer().responder_errors.empty()) verdict_.fail("a responder refused something");
  }
}

/// Why responders sent fatal NAKs, and which work requests failed first: what explains most failures.
std::string RcRun::refusals() const {
  std::string text;
  for (const sim::Side& side : sides_) {
    const sim::RecordingObserver& seen = side.host->observer();
    for (const auto& e : seen.responder_errors) text += std::string("\n  responder: ") + cause_text(e.cause);
    for (const auto& e : seen.error_completions) {
      if (e.completion.status == WcStatus::kWrFlushErr) continue;
      text +=
          std::string("\n  completion: ") + wc_status_name(e.completion.status) + ", " + cause_text(e.completion.cause);
    }
  }
  return text;
}

std::string RcRun::states() const {
  std::string text;
  for (const auto& side : ends_) {
    for (const auto& end : side) {
      if (!end->done()) text += "\n  " + end->state();
    }
  }
  return text;
}

MixedReport RcRun::run() {
  const Instant start = bed_->world.now();
  const bool finished = run_to_end();
  if (!finished && !verdict_.failed()) verdict_.fail("stuck:%s", states().c_str());
  // Late duplicates and last ACKs: nothing of them may change anything.
  if (!verdict_.failed() && !bed_->world.run_until_idle(milliseconds(10'000))) verdict_.fail("never became idle");
  if (!verdict_.failed()) check_end();
  MixedReport report = summarize(*bed_, verdict_, start);
  report.reconnects = reconnects_;
  report.engines = engines_;
  for (const HostShare& share : shares_) report.leaps += share.leaps.size();
  report.forged = spoofer_.forged();
  if (verdict_.failed()) report.failure += refusals();
  for (const auto& side : ends_) {
    for (const auto& end : side) {
      report.bytes += end->posted_bytes();
      report.messages_received += end->received();
    }
  }
  report.ops = std::max<uint64_t>(options_.ops / (2 * options_.qps), 1) * 2 * options_.qps;
  return report;
}

MixedReport run_rc(const MixedOptions& options) { return RcRun(options).run(); }

}  // namespace uroce::oracle
