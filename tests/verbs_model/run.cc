#include "verbs_model/run.h"
#include "verbs_model/generate.h"

#include <algorithm>
#include <deque>

namespace uroce::model {

namespace {

constexpr uint32_t kExtraSteps = 300;       // in a round, so that nothing is left at its end
constexpr unsigned kUseUpMax = 8;           // times that the rest is used up
constexpr unsigned kPatience = 100;         // times that a tenth of a second may pass before all comes to rest
constexpr uint32_t kWrongKey = 0x00ABCD00;  // XORed into the right one

class Runner {
 public:
  Runner(const Program& program, const Rules& rules, Machine& machine, Memory& memory, Totals& totals,
         uint32_t extra = 0)
      : program_(program),
        rules_(rules),
        machine_(machine),
        memory_(memory),
        totals_(totals),
        model_(program, rules, memory, machine, extra),
        destroyed_(program.qps.size()) {}

  /// `more`: another round follows, so this one ends with all queue pairs as at the beginning.
  std::string run(bool more = false) {
    for (uint32_t id = 0; id < program_.steps.size() && !model_.failed(); id++) carry_out(id, program_.steps[id]);
    if (!model_.failed()) more ? come_to_rest() : finish();
    if (!model_.failed() && machine_.stuck()) model_.fail("the machine is busy and gets nowhere");
    if (const std::string complaint = machine_.complaint(); !complaint.empty()) model_.fail("%s", complaint.c_str());
    return model_.failure();
  }

 private:
  void carry_out(uint32_t id, const Step& step) {
    const bool of_qp = step.what == Do::kPost || step.what == Do::kReceive || step.what == Do::kModify ||
                       step.what == Do::kConnect || step.what == Do::kDestroy || step.what == Do::kVanish;
    if (of_qp && destroyed_[step.qp]) return;
    switch (step.what) {
      case Do::kPost:
        return post(id, step);
      case Do::kReceive:
        return receive(id, step);
      case Do::kPoll:
        poll(step.endpoint, step.cq, step.count);
        return;
      case Do::kRun:
        return machine_.run(nanoseconds(step.count));
      case Do::kSettle:
        return settle();
      case Do::kModify:
        return model_.on_modify(step, machine_.modify(step.qp, step.state));
      case Do::kConnect:
        return connect(step.qp, step.count != 0);
      case Do::kDestroy:
        return destroy(step.qp);
      case Do::kDeregister:
        return deregister(step);
      case Do::kRegister:
        if (!gone(step)) return;
        machine_.register_region(step.endpoint, step.region);
        gone(step) = false;
        return model_.on_key_change(step.endpoint, step.region, true);
      case Do::kLeap:
        model_.on_leap(step.endpoint, nanoseconds(step.count));
        return machine_.befall(step);
      case Do::kVanish:
        machine_.befall(step);
        return model_.on_vanish(step.qp);
      case Do::kRestart:
        return restart(step);
      case Do::kTxRoom:
      case Do::kBuffers:
      case Do::kCut:
      case Do::kSpoof:
        return machine_.befall(step);
    }
  }

  void restart(const Step& step) {
    machine_.befall(step);
    model_.on_restart(step.endpoint);
    for (unsigned region = 0; region < kRegions; region++) {
      if (gone_[step.endpoint][region]) machine_.deregister(step.endpoint, static_cast<Region>(region));
    }
  }

  void settle() {
    if (machine_.settle()) model_.on_quiet();
  }

  /// Waits until no queue pair has work that could keep the machine busy. Packets in flight would be taken for the next
  /// round's.
  void rest() {
    bool quiet = machine_.settle();
    for (unsigned i = 0; rules_.rest && i < kPatience && !quiet && !machine_.stuck(); i++) {
      machine_.run(milliseconds(100));
      quiet = machine_.settle();
    }
    if (quiet) return model_.on_quiet();
    if (rules_.rest && !machine_.stuck()) model_.fail("the machine does not come to rest");
  }

  Sge sge_of(unsigned endpoint, const Element& element) const {
    const auto start = reinterpret_cast<uint64_t>(memory_.start(endpoint, element.region));
    const uint32_t key = machine_.key(endpoint, element.region);
    return {start + element.offset, element.length, element.wrong_key ? key ^ kWrongKey : key};
  }

  std::vector<Sge> sges_of(unsigned endpoint, const Step& step) {
    std::vector<Sge> sges;
    for (const Element& element : step.sges) {
      sges.push_back(sge_of(endpoint, element));
      if (element.region == Region::kLanding)
        memory_.use(endpoint, std::min(element.offset + element.length, kLandingBytes));
    }
    return sges;
  }

  void post(uint32_t id, const Step& step) {
    const unsigned here = program_.qps[step.qp].endpoint;
    const unsigned there = program_.qps[step.qp ^ 1u].endpoint;
    std::vector<Sge> sges = sges_of(here, step);
    SendWr wr;
    wr.wr_id = id;
    wr.opcode = step.opcode;
    wr.flags = step.flags;
    const bool inline_data = (step.flags & kSendInline) != 0;
    std::vector<uint8_t> copy;
    if (inline_data) copy = take_copy(sges);
    wr.sges = sges.data();
    wr.num_sge = static_cast<uint32_t>(sges.size());
    wr.imm_or_rkey = step.imm;
    wr.remote_addr = reinterpret_cast<uint64_t>(memory_.start(there, step.region)) + step.offset;
    wr.rkey = machine_.key(there, step.region) ^ (step.wrong_rkey ? kWrongKey : 0);
    wr.compare_add = step.opcode == WrOpcode::kFetchAdd ? step.operand : step.compare;
    wr.swap = step.operand;
    if (step.opcode == WrOpcode::kFlush)
      wr.flush = {step.length, kFlushToGlobal, step.count != 0 ? FlushLevel::kRegion : FlushLevel::kRange};
    const uint32_t wrong = step.wrong_rkey ? kWrongKey : 0;
    if (step.opcode == WrOpcode::kSendWithInv) wr.imm_or_rkey = machine_.key(there, step.window) ^ wrong;
    if (step.opcode == WrOpcode::kLocalInv) wr.imm_or_rkey = machine_.key(here, step.window) ^ wrong;
    if (step.opcode == WrOpcode::kBindMw) {
      wr.bind.addr = reinterpret_cast<uint64_t>(memory_.target(here)) + step.offset;
      wr.bind.length = step.length;
      wr.bind.access = step.access;
      wr.bind.mr_lkey = machine_.key(here, step.region) ^ wrong;
      machine_.begin_bind(here, step.window, wr.bind);
    }
    const Answer answer = machine_.post_send(step.qp, wr, step.to);
    // Inline data was copied: the program reuses its memory.
    std::fill(copy.begin(), copy.end(), 0x3A);
    totals_.posts++;
    model_.on_post_send(id, step, answer);
  }

  /// Lets the elements point to a copy of their data.
  static std::vector<uint8_t> take_copy(std::vector<Sge>& sges) {
    std::vector<uint8_t> copy;
    for (const Sge& sge : sges) {
      const auto* from = reinterpret_cast<const uint8_t*>(sge.addr);
      copy.insert(copy.end(), from, from + sge.length);
    }
    uint64_t at = reinterpret_cast<uint64_t>(copy.data());
    for (Sge& sge : sges) {
      sge.addr = at;
      at += sge.length;
    }
    return copy;
  }

  void receive(uint32_t id, const Step& step) {
    const std::vector<Sge> sges = sges_of(program_.qps[step.qp].endpoint, step);
    const RecvWr wr{id, sges.data(), static_cast<uint32_t>(sges.size())};
    totals_.posts++;
    model_.on_post_receive(id, step, machine_.post_receive(step.qp, wr));
  }

  uint32_t poll(unsigned endpoint, unsigned cq, uint32_t count) {
    Completion completions[64];
    const uint32_t got = machine_.poll(endpoint, cq, std::span(completions, std::min<uint32_t>(count, 64)));
    const std::span<const Completion> all(completions, got);
    totals_.completions += got;
    for (const Completion& completion : all) {
      totals_.errors += completion.status != WcStatus::kSuccess;
    }
    model_.on_poll(endpoint, cq, all, machine_.overrun(endpoint, cq));
    for (const uint32_t id : model_.take_binds()) {
      const Step& step = program_.steps[id];
      machine_.end_bind(program_.qps[step.qp].endpoint, step.window);
    }
    return got;
  }

  void poll_all() {
    for (unsigned endpoint = 0; endpoint < program_.endpoints.size(); endpoint++) {
      for (unsigned cq = 0; cq < 2; cq++) {
        while (!model_.failed() && poll(endpoint, cq, 64) != 0) {
        }
      }
    }
  }

  void connect(unsigned qp, bool at_once = false) {
    if (destroyed_[qp ^ 1]) return;
    // Without PSNs packets in flight would be taken for the new connection's.
    at_once = at_once && program_.qps[qp].type == QpType::kRc;
    for (const unsigned each : {qp, qp ^ 1}) machine_.modify(each, QpState::kReset);
    model_.before_connect(qp);
    if (!at_once) machine_.settle();
    if (!machine_.connect(qp)) model_.fail("queue pair %u cannot be connected again", qp);
  }

  void destroy(unsigned qp) {
    machine_.destroy(qp);
    destroyed_[qp] = true;
    model_.on_destroy(qp);
  }

  void deregister(const Step& step) {
    if (gone(step)) return;
    const Sure may = model_.may_deregister(step.endpoint, step.region);
    const bool done = machine_.deregister(step.endpoint, step.region);
    if (done ? may == Sure::kNo : may == Sure::kYes) {
      return model_.fail("a region %s", done ? "with a window bound to it was deregistered" : "cannot be deregistered");
    }
    if (!done) return;
    gone(step) = true;
    model_.on_key_change(step.endpoint, step.region, false);
  }

  bool& gone(const Step& step) { return gone_[step.endpoint][static_cast<unsigned>(step.region)]; }

  void finish() {
    for (unsigned i = 0; i < 2; i++) {
      settle();
      poll_all();
    }
    if (!model_.failed()) model_.check_rest();
    Step to_error{.what = Do::kModify, .state = QpState::kErr};
    for (unsigned qp = 0; qp < destroyed_.size() && !model_.failed(); qp++) {
      if (destroyed_[qp] || machine_.state(qp) == QpState::kReset) continue;
      to_error.qp = static_cast<uint8_t>(qp);
      model_.on_modify(to_error, machine_.modify(qp, QpState::kErr));
    }
    if (!model_.failed()) rest();
    poll_all();
    if (!model_.failed()) model_.check_flushed();
    for (unsigned qp = 0; qp < destroyed_.size() && !model_.failed(); qp++) {
      if (!destroyed_[qp]) destroy(qp);
    }
    poll_all();
    if (!model_.failed()) model_.check_memory();
    if (!model_.failed()) free_all();
  }

  void come_to_rest() {
    for (unsigned i = 0; i < 2; i++) {
      settle();
      poll_all();
    }
    if (!model_.failed()) model_.check_rest();
    for (unsigned i = 0; i < kUseUpMax && !model_.failed() && use_up(); i++) {
      settle();
      poll_all();
    }
    if (!model_.failed()) model_.check_rest();
    if (!model_.failed()) renew();
    if (!model_.failed()) rest();
    if (!model_.failed()) model_.check_memory();
  }

  /// Sends empty messages for the remaining receives, and so that all is known to be done. False when there is nothing
  /// left.
  bool use_up() {
    bool any = false;
    for (unsigned qp = 0; qp < destroyed_.size(); qp++) {
      if (!model_.works(qp) || !model_.works(qp ^ 1)) continue;
      const uint32_t receives = model_.receives_waiting(qp ^ 1);
      if (receives == 0 && (model_.sends_waiting(qp) == 0 || program_.qps[qp].type == QpType::kUd)) continue;
      Step step{.what = Do::kPost, .qp = static_cast<uint8_t>(qp), .flags = kSendSignaled};
      step.to = static_cast<uint8_t>(qp ^ 1);
      if (receives == 0) step.opcode = WrOpcode::kRdmaWrite;
      for (uint32_t i = 0; i < std::max(receives, 1u) && extra_.size() < kExtraSteps; i++) {
        extra_.push_back(step);
        post(static_cast<uint32_t>(program_.steps.size() + extra_.size() - 1), extra_.back());
        any = true;
      }
    }
    return any;
  }

  /// Renews connections that have not completed all their work.
  void renew() {
    std::vector<unsigned> broken;
    for (unsigned qp = 0; qp < destroyed_.size(); qp += 2) {
      if (!model_.at_its_end(qp) || !model_.at_its_end(qp + 1)) broken.push_back(qp);
    }
    totals_.renewed += broken.size();
    totals_.kept += destroyed_.size() / 2 - broken.size();
    if (broken.empty()) return;
    Step to_error{.what = Do::kModify, .state = QpState::kErr};
    for (const unsigned pair : broken) {
      for (const unsigned qp : {pair, pair + 1}) {
        to_error.qp = static_cast<uint8_t>(qp);
        if (machine_.state(qp) != QpState::kReset) model_.on_modify(to_error, machine_.modify(qp, QpState::kErr));
      }
    }
    if (!model_.failed()) settle();
    poll_all();
    if (!model_.failed()) model_.check_flushed();
    for (const unsigned pair : broken) {
      if (!model_.failed()) connect(pair);
    }
  }

  void free_all() {
    for (unsigned endpoint = 0; endpoint < program_.endpoints.size(); endpoint++) {
      for (const Region window : {Region::kWindow, Region::kWindow2, Region::kOldWindow}) {
        if (!machine_.free_window(endpoint, window)) return model_.fail("a window cannot be freed");
      }
    }
    if (!machine_.free_rest()) model_.fail("something is said to be in use at the end");
  }

  const Program& program_;
  const Rules& rules_;
  Machine& machine_;
  Memory& memory_;
  Totals& totals_;
  Model model_;
  std::vector<bool> destroyed_;
  bool gone_[4][kRegions] = {};
  std::deque<Step> extra_;  // behind those of the program
};

}  // namespace

std::string run_on(const Program& program, const Rules& rules, Machine& machine, Memory& memory, Totals* totals) {
  Totals unused;
  Totals& count = totals != nullptr ? *totals : unused;
  count.programs++;
  return Runner(program, rules, machine, memory, count).run();
}

std::string run_course(const Course& course, const Rules& rules, Totals* totals, Frames frames) {
  Totals unused;
  Totals& count = totals != nullptr ? *totals : unused;
  Memory memory(4);
  const Limits limits{.without = course.without};
  const Program first = generate_round(course.seed, 1, limits);
  const std::unique_ptr<Machine> machine = engines(first, memory, frames);
  for (uint32_t round = 1; round <= course.rounds; round++) {
    const Program program = generate_round(course.seed, round, limits);
    memory.prepare();
    machine->begin_round();
    count.programs++;
    Runner runner(program, rules, *machine, memory, count, kExtraSteps);
    const std::string failure = runner.run(round != course.rounds);
    if (!failure.empty()) return "round " + std::to_string(round) + ": " + failure + "\n" + to_cpp(program);
  }
  for (unsigned i = 0; i < first.endpoints.size(); i++) {
    count.sacks += machine->counters(i)->tx_sack;
    count.retransmits += machine->counters(i)->retransmits;
  }
  return "";
}

}  // namespace uroce::model
