// What a post leads to, as far as it is known when it is made.
#include <algorithm>
#include <cstring>

#include "verbs_model/model.h"

namespace uroce::model {

namespace {

bool has_operation(QpType type, WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
      return true;
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
    case WrOpcode::kLocalInv:
    case WrOpcode::kBindMw:
      return type != QpType::kUd;
    default:
      return type == QpType::kRc;
  }
}

bool is_atomic(WrOpcode opcode) { return opcode == WrOpcode::kCompareSwap || opcode == WrOpcode::kFetchAdd; }
bool is_local(WrOpcode opcode) { return opcode == WrOpcode::kLocalInv || opcode == WrOpcode::kBindMw; }
bool is_write(WrOpcode opcode) {
  return opcode == WrOpcode::kRdmaWrite || opcode == WrOpcode::kRdmaWriteWithImm || opcode == WrOpcode::kAtomicWrite;
}

/// The right that the peer must have granted.
uint32_t rights_for(WrOpcode opcode) {
  if (is_write(opcode)) return kRemoteWrite;
  if (is_atomic(opcode)) return kRemoteAtomic;
  return opcode == WrOpcode::kRdmaRead ? uint32_t{kRemoteRead} : 0;
}

constexpr uint32_t kPlacementBytes = 8;  // written by an ATOMIC_WRITE

uint64_t total_of(const Step& step) {
  uint64_t total = 0;
  for (const Element& element : step.sges) total += element.length;
  return total;
}

}  // namespace

/// `either`: it is invalid in two ways, or the free room is not known.
Answer Model::expected_answer(const Queue& queue, const Step& step, bool& either) const {
  if (queue.state == QpState::kReset) return Answer::kInvalid;
  const QueuePair& spec = queue.spec;
  const uint64_t total = total_of(step);
  bool invalid = !has_operation(spec.type, step.opcode) || step.sges.size() > spec.sges || total > kMaxMessageBytes;
  invalid |= is_atomic(step.opcode) && total != 8;
  invalid |= is_placement(step.opcode) && !step.sges.empty();
  invalid |= spec.type == QpType::kUd && total > rules_.port_mtu;
  invalid |= (step.flags & kSendInline) != 0 && !is_local(step.opcode) && total > spec.inline_bytes;
  // After a RESET there is no path; requests posted in ERR are then cut into packets by the port's MTU.
  const uint32_t mtu = queue.was_reset ? rules_.port_mtu : spec.mtu;
  invalid |= step.opcode == WrOpcode::kRdmaRead && (total + mtu - 1) / mtu >= 1u << 23;
  const bool full = queue.sends.size() >= spec.send_wrs;
  either = full && (invalid || !rules_.slots_until_polled || lossy(queue, true));
  if (either || (full && !rules_.exact_queues)) {
    either = true;
    return invalid ? Answer::kInvalid : Answer::kFull;
  }
  return invalid ? Answer::kInvalid : full ? Answer::kFull : Answer::kOk;
}

void Model::on_post_send(uint32_t id, const Step& step, Answer answer) {
  moment_++;
  Queue& q = queue(step.qp);
  bool either = false;
  const Answer expected = expected_answer(q, step, either);
  if (answer != expected && !either) {
    return fail("step %u: the post was answered with %d instead of %d (%zu posted, of %u)", id,
                static_cast<int>(answer), static_cast<int>(expected), q.sends.size(), q.spec.send_wrs);
  }
  if (answer != Answer::kOk) return;
  Send& send = sends_[id];
  send.step = &step;
  send.qp = step.qp;
  send.signalled = q.spec.signal_all || (step.flags & kSendSignaled) != 0;
  send.length = is_placement(step.opcode) ? kPlacementBytes : static_cast<uint32_t>(total_of(step));
  send.generation = q.generation;
  send.order = q.order++;
  send.began = moment_;
  send.posted = machine_.now(q.spec.endpoint);
  if (q.sends.empty()) q.wait = {send.posted, naks(q.spec.endpoint)};
  if (step.opcode == WrOpcode::kSendWithInv) send.invalidates = machine_.key(peer(step.qp).spec.endpoint, step.window);
  q.sends.push_back(id);
  count_send(q);
  uint32_t reach = send.length;
  if (is_local(step.opcode)) {
    judge_window_work(send);
  } else {
    judge_local(send, reach);
    judge_remote(send);
  }
  note_effects(id, send, reach);
  send.outstanding = true;
}

/// How many bytes of an element, from its beginning, can be read or written now.
uint32_t Model::usable_bytes(unsigned endpoint, const Element& element, bool write) const {
  if (element.wrong_key || is_window(element.region) || element.region == Region::kForeign) return 0;
  if (!sides_[endpoint].valid[static_cast<unsigned>(element.region)]) return 0;
  if (write && (element.region == Region::kSource || element.region == Region::kReadOnly)) return 0;
  const uint32_t size = Memory::size(element.region);
  return element.offset <= size ? std::min(element.length, size - element.offset) : 0;
}

/// `reach`: bytes in packets before the first one that cannot be built.
void Model::judge_local(Send& send, uint32_t& reach) const {
  const Step& step = *send.step;
  const Queue& q = queue(send.qp);
  const bool responds = is_answered_with_data(step.opcode);
  if ((step.flags & kSendInline) != 0 && !responds) return;
  uint32_t offset = 0;
  for (const Element& element : step.sges) {
    if (usable_bytes(q.spec.endpoint, element, responds) != element.length) {
      send.local = Sure::kNo;
      reach = responds ? send.length : offset / q.spec.mtu * q.spec.mtu;
      return;
    }
    offset += element.length;
  }
}

void Model::judge_remote(Send& send) const {
  const Step& step = *send.step;
  const Queue& q = queue(send.qp);
  if (q.spec.type == QpType::kUd) return;
  const Queue& p = peer(send.qp);
  const WrOpcode opcode = step.opcode;
  const uint32_t rights = rights_for(opcode);
  if (p.failed == Sure::kYes || p.destroyed || p.state == QpState::kReset) {
    send.reached = Sure::kNo;
  } else if (p.failed == Sure::kMaybe) {
    send.reached = Sure::kMaybe;
  }
  if ((p.spec.access & rights) != rights) {
    send.remote = Sure::kNo;
    send.remote_statuses |= bit(WcStatus::kRemInvReqErr);
    return;
  }
  if ((is_atomic(opcode) || opcode == WrOpcode::kAtomicWrite) && step.offset % 8 != 0) {
    send.remote = Sure::kNo;
    send.remote_statuses |= bit(WcStatus::kRemInvReqErr);
    return;
  }
  if (opcode == WrOpcode::kSendWithInv) {
    const Window& window = side(p).windows[static_cast<unsigned>(step.window) - kRegions];
    const bool can = step.window != Region::kOldWindow && !step.wrong_rkey && window.qp == (send.qp ^ 1);
    send.remote = can                                                                 ? window.bound
                  : window.bound == Sure::kMaybe && step.window != Region::kOldWindow ? Sure::kMaybe
                                                                                      : Sure::kNo;
    if (step.wrong_rkey) send.remote = Sure::kNo;
    if (send.remote != Sure::kYes) send.remote_statuses |= bit(WcStatus::kRemAccessErr);
  } else if ((rights != 0 && send.length != 0) || opcode == WrOpcode::kFlush) {
    judge_key(send, rights);
  }
}

void Model::judge_key(Send& send, uint32_t rights) const {
  const Step& step = *send.step;
  const unsigned endpoint = peer(send.qp).spec.endpoint;
  Sure good = Sure::kYes;
  if (step.wrong_rkey || step.region == Region::kForeign || step.region == Region::kSource ||
      step.region == Region::kLanding) {
    good = Sure::kNo;
  } else if (is_window(step.region)) {
    good = judge_window(send, endpoint, step.region, rights);
  } else {
    const uint32_t size = Memory::size(step.region);
    const bool flush = step.opcode == WrOpcode::kFlush;
    const uint32_t bytes = flush ? step.length : send.length;
    const bool anywhere = flush && (step.count != 0 || step.length == 0);
    const bool inside = anywhere || (step.offset <= size && bytes <= size - step.offset);
    const bool allowed = step.region != Region::kReadOnly || rights == kRemoteRead;
    const bool valid = sides_[endpoint].valid[static_cast<unsigned>(step.region)];
    if (!inside || !allowed || !valid) good = Sure::kNo;
  }
  send.remote = good;
  if (good != Sure::kYes) send.remote_statuses |= bit(WcStatus::kRemAccessErr) | bit(WcStatus::kRemOpErr);
  if (good == Sure::kNo) send.remote_statuses &= ~bit(WcStatus::kRemOpErr);
}

Sure Model::judge_window(const Send& send, unsigned endpoint, Region region, uint32_t rights) const {
  const Window& window = sides_[endpoint].windows[static_cast<unsigned>(region) - kRegions];
  if (window.bound != Sure::kYes) return window.bound;
  const bool mine = region == Region::kOldWindow || window.qp == (send.qp ^ 1);
  const uint32_t offset = send.step->offset;
  const bool inside = offset >= window.offset && offset - window.offset <= window.length &&
                      send.length <= window.length - (offset - window.offset);
  return mine && inside && (window.access & rights) == rights ? Sure::kYes : Sure::kNo;
}

/// Whether a later step of another queue pair changes the same window before all has come to rest: it may be executed
/// first.
bool Model::contested(const Send& send) const {
  const unsigned endpoint = queue(send.qp).spec.endpoint;
  for (const Step* step = send.step + 1; step != program_.steps.data() + program_.steps.size(); step++) {
    if (step->what == Do::kSettle) return false;
    if (step->what != Do::kPost || step->qp == send.qp || step->window != send.step->window) continue;
    const bool own = step->opcode == WrOpcode::kBindMw || step->opcode == WrOpcode::kLocalInv;
    if (own && queue(step->qp).spec.endpoint == endpoint) return true;
    if (step->opcode == WrOpcode::kSendWithInv && peer(step->qp).spec.endpoint == endpoint) return true;
  }
  return false;
}

/// Checks BIND_MW and LOCAL_INV.
void Model::judge_window_work(Send& send) {
  const Step& step = *send.step;
  const Queue& q = queue(send.qp);
  const Window& window = side(q).windows[static_cast<unsigned>(step.window) - kRegions];
  const bool old = step.window == Region::kOldWindow;
  if (step.opcode == WrOpcode::kLocalInv) {
    const bool refused = window.bound == Sure::kNo || (window.bound == Sure::kYes && window.qp != send.qp);
    send.local = old || step.wrong_rkey || (refused && !contested(send)) ? Sure::kNo
                 : refused                                               ? Sure::kMaybe
                                                                         : window.bound;
  } else {
    const uint32_t size = kTargetBytes;
    bool good = !is_window(step.region) && step.region != Region::kForeign && step.region != Region::kSource &&
                step.region != Region::kLanding && step.region != Region::kWords;
    good = good && !step.wrong_rkey && side(q).valid[static_cast<unsigned>(step.region)];
    good = good && step.offset <= size && step.length <= size - step.offset;
    const bool writes = (step.access & (kRemoteWrite | kRemoteAtomic)) != 0;
    good = good && !(step.region == Region::kReadOnly && writes);
    good = good || (old && step.length == 0);
    good = good && (old || step.length != 0);
    // A type 2 window must be unbound; and if another change is in progress, its key may have changed by then.
    const bool bindable = old || window.bound == Sure::kNo;
    const bool uncertain = window.bound == Sure::kMaybe || (!bindable && contested(send));
    send.local = !good ? Sure::kNo : uncertain ? Sure::kMaybe : bindable ? Sure::kYes : Sure::kNo;
  }
  begin_window_change(q.spec.endpoint, step.window);
}

/// What it may change from now on, and which failures may follow.
void Model::note_effects(uint32_t id, Send& send, uint32_t reach) {
  const Step& step = *send.step;
  Queue& q = queue(send.qp);
  Queue& p = peer(send.qp);
  const bool stopped = q.failed == Sure::kYes || q.mute || q.state == QpState::kErr || q.state == QpState::kSqe;
  send.hopeless = stopped || q.doomed;
  send.buried = stopped;
  make_payload(send, reach);
  const bool ud = q.spec.type == QpType::kUd;
  if (step.opcode == WrOpcode::kSendWithInv && !stopped) begin_window_change(p.spec.endpoint, step.window);
  const bool takes = step.opcode == WrOpcode::kSend || step.opcode == WrOpcode::kSendWithImm ||
                     step.opcode == WrOpcode::kSendWithInv || step.opcode == WrOpcode::kRdmaWriteWithImm;
  if (takes) note_message(id, send);
  if (is_atomic(step.opcode)) note_atomic(id, send);
  if (is_write(step.opcode) && send.remote != Sure::kNo && send.reached != Sure::kNo && !stopped && reach != 0) {
    deeds_.push_back({p.spec.endpoint, send.qp, send.generation, send.order, step.offset, reach, id, moment_, kOpen,
                      false, (step.flags & kSendFence) != 0});
  }
  if (stopped) send.reached = Sure::kNo;
  const bool whole = send.local == Sure::kYes && send.remote == Sure::kYes && send.reached == Sure::kYes;
  if (!whole && !ud) worry(send.qp);
  if (!whole && ud) q.failed = std::max(q.failed, Sure::kMaybe);
  const bool reliable = q.spec.type == QpType::kRc;
  // Errors at the peer do not concern an unreliable sender.
  if (send.local == Sure::kNo || (reliable && (send.remote == Sure::kNo || send.reached == Sure::kNo))) {
    q.doomed = true;
    q.mute |= !is_answered_with_data(step.opcode) || send.remote == Sure::kNo;
  }
}

void Model::make_payload(Send& send, uint32_t reach) {
  const Step& step = *send.step;
  if (is_answered_with_data(step.opcode) || is_local(step.opcode)) return;
  if (step.opcode == WrOpcode::kAtomicWrite) {
    send.payload.resize(kPlacementBytes);
    std::memcpy(send.payload.data(), &step.operand, kPlacementBytes);
  }
  const uint8_t* source = Memory::source();
  for (const Element& element : step.sges) {
    if (send.payload.size() >= reach) break;
    const uint64_t bytes = std::min<uint64_t>(element.length, reach - send.payload.size());
    send.payload.insert(send.payload.end(), source + element.offset, source + element.offset + bytes);
  }
}

/// It takes a receive of the peer's: whether there is one, and whether the message fits.
void Model::note_message(uint32_t id, Send& send) {
  Queue& q = queue(send.qp);
  send.message = static_cast<uint32_t>(q.messages.size());
  q.messages.push_back(id);
  const unsigned target = q.spec.type == QpType::kUd ? send.step->to : send.qp ^ 1u;
  Queue& p = queue(target);
  if (q.spec.type != QpType::kRc) send.owed = will_arrive(send, p);
  if (q.spec.type != QpType::kRc) p.incoming++;
  if (q.spec.type != QpType::kRc || p.spec.srq) {
    if (p.spec.srq) {
      for (const uint32_t receive : side(p).srq.receives) meet(id, receive);
    } else {
      for (const uint32_t receive : p.receives) meet(id, receive);
    }
    if (q.spec.rnr_retries != 7 && q.spec.type == QpType::kRc) worry(send.qp);
    return;
  }
  if (send.message < p.receives_in_order.size()) {
    meet(id, p.receives_in_order[send.message]);
  } else if (q.spec.rnr_retries != 7) {
    worry(send.qp);
  }
}

/// An unreliable queue pair has at least as many receives as messages in flight to it, and the one for this message is
/// large enough.
bool Model::will_arrive(const Send& send, const Queue& to) const {
  const Queue& from = queue(send.qp);
  const bool clean = rules_.arrival && faults_ == 0 && !network_cuts_ && !to.spec.srq;
  const bool stand = to.failed == Sure::kNo && to.state == QpState::kRts && !to.destroyed && !to.was_reset &&
                     from.failed == Sure::kNo && !from.was_reset;
  if (!clean || !stand || send.local != Sure::kYes || send.remote != Sure::kYes) return false;
  return !send.hopeless && to.incoming < to.receives_in_order.size();
}

/// Notes that this message may go into this receive.
void Model::meet(uint32_t message, uint32_t receive) {
  const Send& send = sends_[message];
  const Receive& into = receives_[receive];
  if (send.step->opcode == WrOpcode::kRdmaWriteWithImm) return;
  const bool ud = queue(send.qp).spec.type == QpType::kUd;
  const uint32_t length = send.length + (ud ? kGrhBytes : 0);
  if (length > into.room || (length != 0 && into.usable(length) != Sure::kYes)) {
    Queue& q = queue(ud ? send.step->to : send.qp ^ 1u);
    if (ud || q.spec.type == QpType::kUc) {
      q.failed = std::max(q.failed, Sure::kMaybe);
      if (!ud) worry(send.qp);
    } else {
      worry(send.qp);
    }
  }
}

void Model::note_atomic(uint32_t id, Send& send) {
  const Step& step = *send.step;
  if (send.remote == Sure::kNo || send.reached == Sure::kNo || queue(send.qp).mute) return;
  Side& there = side(peer(send.qp));
  const unsigned word = step.offset / 8;
  if (step.opcode == WrOpcode::kFetchAdd) {
    const bool counter = word == kCounterWord;
    send.adds_before = counter ? there.counted : there.added[word];
    there.counts += counter ? 1 : 0;
    for (const uint32_t other : queue(send.qp).sends) {
      const Send& before = sends_[other];
      const bool same = before.step->opcode == WrOpcode::kFetchAdd && before.step->offset == step.offset;
      if (!same || other == id) continue;
      send.adds_before = counter ? send.adds_before + 1 : send.adds_before | before.step->operand;
    }
    there.maybe_added[word] |= step.operand;
  } else {
    there.swaps[word].push_back(id);
  }
}

void Model::on_post_receive(uint32_t id, const Step& step, Answer answer) {
  moment_++;
  Queue& q = queue(step.qp);
  const bool shared = q.spec.srq;
  auto& waiting = shared ? side(q).srq.receives : q.receives;
  const uint32_t slots = shared ? program_.endpoints[q.spec.endpoint].srq_wrs : q.spec.recv_wrs;
  const bool invalid = step.sges.size() > (shared ? 4u : q.spec.sges) || (!shared && q.state == QpState::kReset);
  // A slot of a shared queue may be taken or free when its queue pair was reset after a message had begun to fill it.
  const bool exact = rules_.exact_queues && rules_.slots_until_polled && !shared && !lossy(q, false);
  const Answer expected = invalid ? Answer::kInvalid : waiting.size() >= slots ? Answer::kFull : Answer::kOk;
  const bool good = answer == expected || (!exact && expected == Answer::kFull) ||
                    (!rules_.exact_queues && answer == Answer::kFull) ||
                    (answer == Answer::kFull && invalid && waiting.size() >= slots);
  if (!good) {
    return fail("step %u: the receive was answered with %d instead of %d (%zu posted, of %u)", id,
                static_cast<int>(answer), static_cast<int>(expected), waiting.size(), slots);
  }
  if (answer != Answer::kOk) return;
  Receive& receive = receives_[id];
  receive.step = &step;
  receive.qp = step.qp;
  receive.outstanding = true;
  receive.generation = q.generation;
  receive.posted = machine_.now(q.spec.endpoint);
  uint64_t room = 0;
  bool works = true;
  for (const Element& element : step.sges) {
    const uint32_t bytes = usable_bytes(q.spec.endpoint, element, true);
    if (works) receive.good = static_cast<uint32_t>(std::min<uint64_t>(room + bytes, UINT32_MAX));
    works = works && bytes == element.length;
    room += element.length;
  }
  receive.room = static_cast<uint32_t>(std::min<uint64_t>(room, UINT32_MAX));
  waiting.push_back(id);
  count_receive(q, 1);
  if (!shared) q.receives_in_order.push_back(id);
  for (unsigned from = 0; from < queues_.size(); from++) meet_messages(from, id);
}

/// Notes which messages of `from` may go into this new receive.
void Model::meet_messages(unsigned from, uint32_t receive) {
  const Queue& sender = queues_[from];
  const Queue& q = queue(receives_[receive].qp);
  for (const uint32_t message : sender.messages) {
    const Send& send = sends_[message];
    if (send.delivered) continue;
    const unsigned to = sender.spec.type == QpType::kUd ? send.step->to : from ^ 1u;
    if (q.spec.srq) {
      if (queues_[to].spec.srq && queues_[to].spec.endpoint == q.spec.endpoint) meet(message, receive);
    } else if (to == receives_[receive].qp) {
      // On RC they correspond by number.
      if (sender.spec.type != QpType::kRc || send.message + 1 == q.receives_in_order.size()) meet(message, receive);
    }
  }
}

}  // namespace uroce::model
