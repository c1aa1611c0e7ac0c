// Completions of send queues, and how queue pairs end.
#include <algorithm>
#include <cinttypes>

#include "verbs_model/model.h"

namespace uroce::model {

namespace {

WcOpcode completion_of(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return WcOpcode::kRdmaWrite;
    case WrOpcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case WrOpcode::kCompareSwap:
      return WcOpcode::kCompSwap;
    case WrOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case WrOpcode::kLocalInv:
      return WcOpcode::kLocalInv;
    case WrOpcode::kBindMw:
      return WcOpcode::kBindMw;
    case WrOpcode::kFlush:
      return WcOpcode::kFlush;
    case WrOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
    default:
      return WcOpcode::kSend;
  }
}

}  // namespace

void Model::on_poll(unsigned endpoint, unsigned number, std::span<const Completion> completions, bool overrun) {
  moment_++;
  Cq& cq = sides_[endpoint].cqs[number];
  if (overrun && !cq.may_overrun) {
    return fail("completion queue %u of endpoint %u is said to have overrun, and cannot have", number, endpoint);
  }
  cq.overrun |= overrun;
  for (const Completion& completion : completions) {
    on_completion(endpoint, number, completion);
    if (failed()) return;
  }
}

void Model::on_completion(unsigned endpoint, unsigned number, const Completion& completion) {
  Cq& cq = sides_[endpoint].cqs[number];
  if (completion.wr_id >= sends_.size())
    return fail("a completion of wr_id %" PRIu64 ", which nobody posted", completion.wr_id);
  const auto id = static_cast<uint32_t>(completion.wr_id);
  const bool is_send = sends_[id].step != nullptr;
  if (!is_send && receives_[id].step == nullptr) return fail("step %u completed, and was not posted", id);
  const Instant posted = is_send ? sends_[id].posted : receives_[id].posted;
  const Instant at{completion.timestamp_ns};
  if (rules_.times && (at < posted || at > machine_.now(endpoint))) {
    return fail("step %u completed at %" PRId64 ", posted at %" PRId64 ", polled at %" PRId64, id, at.ns, posted.ns,
                machine_.now(endpoint).ns);
  }
  if (rules_.times && at < cq.latest) return fail("step %u completed before the one before it", id);
  cq.latest = at;
  const bool flushed = completion.status == WcStatus::kWrFlushErr;
  const bool explained = completion.status == WcStatus::kSuccess ? completion.cause == Cause::kNone
                         : flushed                               ? completion.cause == Cause::kFlushed
                                   : completion.cause != Cause::kNone && completion.cause != Cause::kFlushed;
  if (rules_.causes && !explained)
    return fail("step %u completed (%s) with cause %d", id, wc_status_name(completion.status),
                static_cast<int>(completion.cause));
  if (is_send) {
    complete_send(id, cq, completion);
  } else {
    complete_receive(id, completion);
  }
}

void Model::complete_send(uint32_t id, const Cq& cq, const Completion& c) {
  Send& send = sends_[id];
  Queue& q = queue(send.qp);
  const char* status = wc_status_name(c.status);
  if (send.generation != q.generation || q.destroyed) {
    if (rules_.reset_takes_completions)
      fail("step %u completed (%s) after its queue pair was reset or destroyed", id, status);
    return;
  }
  if (!send.outstanding) return fail("step %u completed (%s) a second time, or after a later one", id, status);
  if (&cq != &cq_of(q, true)) return fail("step %u completed in another queue", id);
  if (c.qp_num != machine_.qpn(send.qp)) return fail("step %u: wrong qp_num", id);
  if (c.opcode != completion_of(send.step->opcode) && c.status == WcStatus::kSuccess) {
    return fail("step %u: completion has opcode %d", id, static_cast<int>(c.opcode));
  }
  while (q.sends.front() != id) {
    Send& earlier = sends_[q.sends.front()];
    const bool silent = !earlier.signalled && !q.sends_failed && may_succeed(earlier);
    if (!silent && !lossy(q, true))
      return fail("step %u completed (%s), and step %u before it did not", id, status, q.sends.front());
    retire(earlier, silent && !lossy(q, true) ? Sure::kYes : Sure::kMaybe);
    if (failed()) return;
  }
  if (c.status == WcStatus::kSuccess) {
    if (q.sends_failed && !q.vague) return fail("step %u succeeded after an error", id);
    if (!may_succeed(send) && !q.vague) return fail("step %u succeeded, and cannot have", id);
    if (!send.signalled) return fail("step %u was not signalled, and its success was reported", id);
    if (is_answered_with_data(send.step->opcode) && c.byte_len != send.length)
      return fail("step %u: byte_len %u", id, c.byte_len);
    q.wait.since = std::max(q.wait.since, Instant{c.timestamp_ns});
    return retire(send, Sure::kYes);
  }
  const bool flushed = c.status == WcStatus::kWrFlushErr;
  if (!q.vague && (flushed ? !q.sends_failed && q.failed == Sure::kNo : q.sends_failed)) {
    return fail("step %u ended with '%s' %s", id, status, flushed ? "though nothing has failed" : "behind an error");
  }
  if (!flushed && (failures(send) & bit(c.status)) == 0)
    return fail("step %u ended with '%s': nothing explains it", id, status);
  if (c.status == WcStatus::kRetryExcErr && c.cause == Cause::kTimeout && !waited_enough(q, Instant{c.timestamp_ns}))
    return fail("step %u: queue pair %u gave up before it had waited for all of its retries", id, send.qp);
  q.sends_failed = !q.vague;
  fail_queue(send.qp, true, flushed);
  retire(send, flushed ? Sure::kMaybe : Sure::kNo);
}

/// The NAKs that asked an endpoint for a retransmission.
uint64_t Model::naks(unsigned endpoint) const {
  const Counters* const counters = machine_.counters(endpoint);
  return counters == nullptr ? 0 : counters->packet_seq_err + counters->implied_nak_seq_err;
}

/// Each retry that no NAK asked for has waited for an answer. A leap of the clock ends one wait, however far it goes.
bool Model::waited_enough(const Queue& q, Instant until) const {
  const Duration once = machine_.ack_timeout();
  if (once.ns == 0) return true;
  Duration waited = until - q.wait.since;
  for (const Leap& leap : side(q).leaps) {
    if (leap.at >= q.wait.since && leap.at < until && leap.by > once) waited.ns -= leap.by.ns - once.ns;
  }
  const uint64_t tries = q.spec.retries + 1u;
  const uint64_t asked_for = std::min(naks(q.spec.endpoint) - q.wait.naks_before, tries - 1);
  return waited >= once * static_cast<int64_t>(tries - asked_for);
}

bool Model::may_succeed(const Send& send) const {
  const Queue& q = queue(send.qp);
  if (send.hopeless || send.local == Sure::kNo) return false;
  if (q.spec.type != QpType::kRc) return true;
  if (send.remote == Sure::kNo || send.reached == Sure::kNo) return false;
  if (send.message == kNone) return true;
  const Queue& p = peer(send.qp);
  if (p.spec.srq) return true;
  if (send.message >= p.receives_in_order.size()) return false;
  if (send.step->opcode == WrOpcode::kRdmaWriteWithImm) return true;
  const Receive& into = receives_[p.receives_in_order[send.message]];
  return into.room >= send.length && (into.usable(send.length) != Sure::kNo || send.length == 0);
}

/// The statuses with which it may fail by itself.
uint32_t Model::failures(const Send& send) const {
  const Queue& q = queue(send.qp);
  const WrOpcode opcode = send.step->opcode;
  uint32_t statuses = 0;
  if (send.local != Sure::kYes) {
    const bool of_window = opcode == WrOpcode::kBindMw || opcode == WrOpcode::kLocalInv;
    statuses |= bit(of_window ? WcStatus::kMwBindErr : WcStatus::kLocProtErr);
  }
  if (q.spec.type != QpType::kRc) return statuses;
  if (send.remote != Sure::kYes) statuses |= send.remote_statuses;
  if (opcode == WrOpcode::kLocalInv || opcode == WrOpcode::kBindMw) return statuses;
  if (send.reached != Sure::kYes || q.failed != Sure::kNo) statuses |= bit(WcStatus::kRetryExcErr);
  if (send.message == kNone) return statuses;
  const Queue& p = peer(send.qp);
  if (q.spec.rnr_retries != 7) statuses |= bit(WcStatus::kRnrRetryExcErr);
  if (side(p).cqs[p.spec.recv_cq].may_overrun) statuses |= bit(WcStatus::kRemOpErr);
  const bool write = opcode == WrOpcode::kRdmaWriteWithImm;
  if (write || send.length == 0) return statuses;
  if (p.spec.srq) return statuses | bit(WcStatus::kRemInvReqErr) | bit(WcStatus::kRemOpErr);
  if (send.message >= p.receives_in_order.size()) return statuses;
  const Receive& into = receives_[p.receives_in_order[send.message]];
  if (into.room < send.length) statuses |= bit(WcStatus::kRemInvReqErr);
  if (into.usable(send.length) != Sure::kYes) statuses |= bit(WcStatus::kRemOpErr);
  return statuses;
}

/// Removes it from its queue. kYes: it was executed. kNo: it failed by itself.
void Model::retire(Send& send, Sure done) {
  Queue& q = queue(send.qp);
  const WrOpcode opcode = send.step->opcode;
  send.outstanding = false;
  q.sends.pop_front();
  cq_of(q, true).possible--;
  const bool reliable = q.spec.type == QpType::kRc;
  send.sent = done == Sure::kYes;
  if (done == Sure::kYes && reliable) {
    send.acknowledged = send.message != kNone;
    for (Deed& deed : deeds_) {
      if (&sends_[deed.id] != &send) continue;
      deed.sure = true;
      deed.ended = moment_;
    }
  }
  if (opcode == WrOpcode::kBindMw && done == Sure::kYes) binds_.push_back(static_cast<uint32_t>(&send - sends_.data()));
  if (opcode == WrOpcode::kLocalInv || opcode == WrOpcode::kBindMw) end_window_change(send, done);
  if (is_answered_with_data(opcode)) {
    if (opcode == WrOpcode::kRdmaRead) {
      compare_read(send, done != Sure::kYes);
    } else {
      check_atomic(send, done == Sure::kYes);
    }
    for (const Element& element : send.step->sges) {
      if (element.region == Region::kLanding && !element.wrong_key && element.offset <= kLandingBytes &&
          element.length <= kLandingBytes - element.offset)
        memory_.freeze(q.spec.endpoint, element.offset, element.length);
    }
  }
}

void Model::fail_queue(unsigned qp, bool send, bool flushed) {
  Queue& q = queue(qp);
  worry(qp);
  const bool stops_sending = send && q.spec.type != QpType::kRc && !flushed;
  if (stops_sending) {
    // A queue that may have left SQE before its error was polled may be in RTS.
    if (q.state != QpState::kErr && !q.vague) q.state = QpState::kSqe;
  } else if (!send || q.spec.type == QpType::kRc) {
    q.failed = Sure::kYes;
    q.state = QpState::kErr;
  }
}

void Model::on_modify(const Step& step, bool done) {
  moment_++;
  Queue& q = queue(step.qp);
  const QpState from = q.state;
  const bool always = step.state == QpState::kErr || step.state == QpState::kReset;
  const bool possible = always || (from == QpState::kRts && step.state == QpState::kSqd) ||
                        (from == QpState::kRts && step.state == QpState::kRts) ||
                        (from == QpState::kSqd && (step.state == QpState::kRts || step.state == QpState::kSqd)) ||
                        (from == QpState::kSqe && step.state == QpState::kRts);
  if (done != possible && (always || q.failed != Sure::kMaybe)) {
    return fail("queue pair %u: modify to %s from %s %s", step.qp, qp_state_name(step.state), qp_state_name(from),
                done ? "worked" : "was refused");
  }
  if (!done) return;
  switch (step.state) {
    case QpState::kErr:
      worry(step.qp);
      q.state = QpState::kErr;
      q.failed = Sure::kYes;
      break;
    case QpState::kReset:
      worry(step.qp);
      forget(step.qp);
      q.state = QpState::kReset;
      break;
    default:
      q.state = step.state;
      leave_error_of_sends(q, from);
      break;
  }
}

/// From SQE, or from RTS when the program has not polled the error.
void Model::leave_error_of_sends(Queue& q, QpState from) {
  const bool perhaps = from == QpState::kRts && q.failed == Sure::kMaybe && q.spec.type != QpType::kRc;
  if (from != QpState::kSqe && !perhaps) return;
  // Flushed requests that were not polled yet precede what comes now.
  q.vague |= perhaps || !q.sends.empty();
  q.sends_failed = q.doomed = q.mute = false;
}

/// RESET: nothing posted completes any more, and posted memory is not touched any more.
void Model::forget(unsigned qp) {
  Queue& q = queue(qp);
  Cq& send_cq = cq_of(q, true);
  const bool overran = send_cq.overrun;
  for (Deed& deed : deeds_) {
    // Packets of the peer's to this queue pair are dropped from now on.
    if (deed.qp == (qp ^ 1) && deed.ended == kOpen) deed.ended = moment_;
  }
  while (!q.sends.empty()) {
    retire(sends_[q.sends.front()], Sure::kMaybe);
  }
  send_cq.overrun = overran;
  for (const uint32_t id : q.receives) {
    receives_[id].outstanding = false;
    settle_partial(receives_[id]);
    count_receive(q, -1);
  }
  q.receives.clear();
  q.generation++;
  q.was_reset = true;
  q.failed = Sure::kYes;
  q.sends_failed = q.receives_failed = q.doomed = q.mute = q.vague = false;
}

void Model::before_connect(unsigned qp) {
  moment_++;
  for (const unsigned each : {qp, qp ^ 1}) forget(each);
  for (const unsigned each : {qp, qp ^ 1}) {
    Queue& q = queue(each);
    // Earlier messages might still arrive until now. Datagrams that arrived elsewhere may not have been polled yet.
    if (q.spec.type != QpType::kUd) q.messages.clear();
    q.receives_in_order.clear();
    q.delivered = q.order = q.incoming = q.arrived = 0;
    for (Send& send : sends_) {
      if (send.owed && (q.spec.type == QpType::kUd ? send.step->to == each : (send.qp ^ 1u) == each)) send.owed = false;
    }
    q.was_reset = false;
    q.failed = Sure::kNo;
    q.state = QpState::kRts;
    if (q.spec.type == QpType::kRc && !outlives_faults(q.spec)) worry(each);
    for (const bool send : {true, false}) {
      if (cq_of(q, send).may_overrun) worry(each);
    }
  }
}

void Model::on_destroy(unsigned qp) {
  moment_++;
  worry(qp);
  forget(qp);
  queue(qp).destroyed = true;
  queue(qp).state = QpState::kReset;
}

/// Another one has its place: nothing posted completes, and no event tells of it.
void Model::on_vanish(unsigned qp) {
  moment_++;
  worry(qp);
  forget(qp);
  Queue& q = queue(qp);
  q.state = QpState::kReset;
  for (unsigned number = 0; number < kWindows; number++) {
    Window& window = side(q).windows[number];
    const bool old = static_cast<Region>(kRegions + number) == Region::kOldWindow;
    if (!old && window.qp == qp && window.bound != Sure::kNo) window.bound = window.before = Sure::kMaybe;
  }
}

/// All its objects but the memory are gone; new ones are as at the beginning.
void Model::on_restart(unsigned endpoint) {
  moment_++;
  Side& here = sides_[endpoint];
  for (unsigned region = 0; region < kRegions + kWindows; region++) widen(endpoint, static_cast<Region>(region));
  for (unsigned qp = 0; qp < queues_.size(); qp++) {
    if (queues_[qp].spec.endpoint == endpoint && !queues_[qp].destroyed) on_vanish(qp);
  }
  for (const uint32_t id : here.srq.receives) {
    receives_[id].outstanding = false;
    settle_partial(receives_[id]);
  }
  here.srq.receives.clear();
  for (Cq& cq : here.cqs) cq = {.may_overrun = cq.may_overrun};
  for (Window& window : here.windows) window = {};
  for (Deed& deed : deeds_) {
    if (deed.endpoint == endpoint && deed.ended == kOpen) deed.ended = moment_;
  }
}

void Model::on_leap(unsigned endpoint, Duration by) { sides_[endpoint].leaps.push_back({machine_.now(endpoint), by}); }

void Model::on_quiet() {
  moment_++;
  for (Deed& deed : deeds_) {
    if (deed.ended == kOpen && !sends_[deed.id].outstanding) deed.ended = moment_;
  }
}

}  // namespace uroce::model
