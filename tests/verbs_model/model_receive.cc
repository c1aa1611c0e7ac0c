// Completions of receives: which message is it, and is it all there?
#include <algorithm>
#include <cstring>

#include "verbs_model/model.h"

namespace uroce::model {

void Model::complete_receive(uint32_t id, const Completion& c) {
  Receive& receive = receives_[id];
  const unsigned endpoint = queue(receive.qp).spec.endpoint;
  unsigned qp = receive.qp;
  if (queue(qp).spec.srq) {
    for (qp = 0; qp < queues_.size(); qp++) {
      const Queue& q = queues_[qp];
      if (q.spec.srq && q.spec.endpoint == endpoint && !q.destroyed && machine_.qpn(qp) == c.qp_num) break;
    }
    // Of a queue pair that was destroyed.
    if (qp == queues_.size()) {
      if (rules_.reset_takes_completions) fail("step %u: receive of a queue pair that is not there", id);
      return;
    }
  }
  Queue& q = queue(qp);
  const char* status = wc_status_name(c.status);
  if (q.destroyed || (!q.spec.srq && receive.generation != q.generation)) {
    if (rules_.reset_takes_completions)
      fail("receive %u completed (%s) after its queue pair was reset or destroyed", id, status);
    return;
  }
  if (!rules_.reset_takes_completions && q.spec.srq && q.generation != 0) return;  // of which connection?
  if (!receive.outstanding) return fail("receive %u completed (%s) a second time", id, status);
  if (c.qp_num != machine_.qpn(qp)) return fail("receive %u: wrong qp_num", id);
  if (c.opcode < WcOpcode::kRecv) return fail("receive %u: opcode %d", id, static_cast<int>(c.opcode));
  if (!take_receive(id, qp)) return fail("receive %u completed (%s), and an earlier one did not", id, status);
  if (c.status != WcStatus::kSuccess) {
    receive_failure(id, qp, c);
  } else if (q.receives_failed) {
    fail("receive %u succeeded after an error", id);
  } else if (q.spec.type == QpType::kRc) {
    receive_reliable(id, qp, c);
  } else {
    receive_unreliable(id, qp, c);
  }
}

/// Removes it from its queue. False when it is not its turn.
bool Model::take_receive(uint32_t id, unsigned qp) {
  Queue& q = queue(qp);
  auto& waiting = q.spec.srq ? side(q).srq.receives : q.receives;
  const auto at = std::find(waiting.begin(), waiting.end(), id);
  if (at == waiting.end()) return false;
  if (at != waiting.begin() && !q.spec.srq) {
    if (!lossy(q, false)) return false;
    for (auto lost = waiting.begin(); lost != at; ++lost) {
      receives_[*lost].outstanding = false;
      settle_partial(receives_[*lost]);
      q.delivered += q.spec.type == QpType::kRc ? 1 : 0;
    }
    waiting.erase(waiting.begin(), at);
    waiting.pop_front();
  } else {
    waiting.erase(at);
  }
  receives_[id].outstanding = false;
  count_receive(q, -1);
  return true;
}

/// Why this completion is not of that message; nullptr when it is.
const char* Model::mismatch(const Send& m, const Receive& receive, const Completion& c, bool datagram) const {
  const Step& step = *m.step;
  const bool write = step.opcode == WrOpcode::kRdmaWriteWithImm;
  const WcOpcode opcode = write && !rules_.planted_mistake ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv;
  if (c.opcode != opcode) return "opcode";
  const uint32_t grh = datagram ? kGrhBytes : 0;
  if (c.byte_len != m.length + grh) return "byte_len";
  const bool imm = write || step.opcode == WrOpcode::kSendWithImm;
  const bool inv = step.opcode == WrOpcode::kSendWithInv;
  const unsigned flags = (imm ? kWcWithImm : 0) | (inv ? kWcWithInv : 0) | (datagram ? kWcGrh : 0);
  if (c.flags != flags) return "flags";
  if (imm && c.imm_or_rkey != step.imm) return "immediate data";
  if (inv && c.imm_or_rkey != m.invalidates) return "invalidated key";
  if (datagram && c.src_qp != machine_.qpn(m.qp)) return "src_qp";
  if (write) return nullptr;
  const unsigned endpoint = queue(receive.qp).spec.endpoint;
  uint32_t at = 0;
  for (const Element& element : receive.step->sges) {
    const uint32_t end = at + element.length;
    const uint32_t from = std::max(at, grh);
    const uint32_t to = std::min(end, m.length + grh);
    if (from < to && std::memcmp(memory_.landing(endpoint) + element.offset + (from - at),
                                 m.payload.data() + (from - grh), to - from) != 0)
      return "data";
    at = end;
  }
  return nullptr;
}

void Model::receive_reliable(uint32_t id, unsigned qp, const Completion& c) {
  Queue& q = queue(qp);
  const Queue& p = peer(qp);
  Receive& receive = receives_[id];
  const bool lost_some = lossy(q, false);
  if (q.delivered >= p.messages.size()) {
    if (p.generation == 0 || !lost_some) fail("receive %u has a message that nobody sent", id);
    return;
  }
  // Completions of this queue pair may have been lost with a shared queue's: then it can be of any later message.
  const char* reason = nullptr;
  do {
    Send& message = sends_[p.messages[q.delivered++]];
    reason = message.buried                                              ? "it cannot have been sent"
             : message.local == Sure::kNo || message.remote == Sure::kNo ? "it cannot have arrived"
                                                                         : mismatch(message, receive, c, false);
    if (reason != nullptr) continue;
    // Behind a failure of the sender it may still be in flight, but not behind one that is never sent.
    accept_message(message, qp);
    break;
  } while (lost_some && q.delivered < p.messages.size());
  if (reason != nullptr) return fail("receive %u is not message %u of its sender: %s", id, q.delivered - 1, reason);
  const Send& message = sends_[p.messages[q.delivered - 1]];
  if (message.step->opcode == WrOpcode::kRdmaWriteWithImm) {
    settle_untouched(receive, 0);
  } else {
    settle_untouched(receive, message.length);
  }
}

void Model::accept_message(Send& message, unsigned) {
  message.delivered = true;
  if (message.step->opcode == WrOpcode::kSendWithInv) end_window_change(message, Sure::kYes);
  if (message.step->opcode != WrOpcode::kRdmaWriteWithImm) return;
  // Its bytes are there, whatever its sender is told.
  for (Deed& deed : deeds_) deed.sure |= &sends_[deed.id] == &message;
}

/// UC and UD: any message that was not received yet; if the network repeats or reorders packets, any message.
void Model::receive_unreliable(uint32_t id, unsigned qp, const Completion& c) {
  Queue& q = queue(qp);
  Receive& receive = receives_[id];
  const bool datagram = q.spec.type == QpType::kUd;
  const char* reason = "nobody sent any";
  for (unsigned from = 0; from < queues_.size(); from++) {
    Queue& sender = queues_[from];
    if (datagram ? sender.spec.type != QpType::kUd : from != (qp ^ 1u)) continue;
    for (const uint32_t number : sender.messages) {
      Send& message = sends_[number];
      if (datagram && message.step->to != qp) continue;
      if (message.delivered && !network_reorders_) continue;
      if (message.local == Sure::kNo) continue;
      reason = mismatch(message, receive, c, datagram);
      if (reason == nullptr && datagram && !names_sender(receive, from)) reason = "GRH";
      if (reason != nullptr) continue;
      if (!network_reorders_) {
        // Messages sent earlier on this queue that did not arrive are lost.
        for (const uint32_t earlier : sender.messages) {
          if (earlier == number) break;
          if (!datagram || sends_[earlier].step->to == qp) sends_[earlier].delivered = true;
        }
      }
      message.delivered = true;
      q.arrived++;
      const bool write = message.step->opcode == WrOpcode::kRdmaWriteWithImm;
      const uint32_t length = write ? 0 : message.length + (datagram ? kGrhBytes : 0);
      // UC: a message that was lost in the middle may have left its first bytes here.
      if (datagram) {
        settle_untouched(receive, length);
      } else {
        settle_partial(receive);
      }
      return;
    }
  }
  fail("receive %u is none of the messages that were sent to it; the last one differs in: %s", id, reason);
}

/// Its first bytes are the datagram's IP header: for IPv4 the last twenty of them.
bool Model::names_sender(const Receive& receive, unsigned sender) const {
  const std::optional<IpAddress> source = machine_.address(sender);
  if (!source) return true;
  const unsigned endpoint = queue(receive.qp).spec.endpoint;
  std::vector<uint8_t> grh;
  for (const Element& element : receive.step->sges) {
    const uint8_t* bytes = memory_.landing(endpoint) + element.offset;
    for (uint32_t i = 0; i < element.length && grh.size() < kGrhBytes; i++) grh.push_back(bytes[i]);
  }
  if (grh.size() < kGrhBytes) return true;
  if (queues_[sender].spec.ipv6) return grh[0] >> 4 == 6 && std::equal(&grh[8], &grh[24], source->bytes.begin());
  return grh[20] == 0x45 && std::equal(&grh[32], &grh[36], source->bytes.begin() + 12);
}

void Model::receive_failure(uint32_t id, unsigned qp, const Completion& c) {
  Queue& q = queue(qp);
  Receive& receive = receives_[id];
  const bool flushed = c.status == WcStatus::kWrFlushErr;
  const char* status = wc_status_name(c.status);
  if (flushed ? q.failed == Sure::kNo : q.receives_failed)
    return fail("receive %u ended with '%s', and nothing explains it", id, status);
  const Queue& p = peer(qp);
  const Send* next =
      q.spec.type == QpType::kRc && q.delivered < p.messages.size() ? &sends_[p.messages[q.delivered]] : nullptr;
  bool explained = flushed || q.spec.type != QpType::kRc;
  switch (c.status) {
    case WcStatus::kLocLenErr:
      if (q.spec.type != QpType::kRc && q.spec.srq) return receive_too_short(id, qp);
      explained = next != nullptr && next->length > receive.room;
      break;
    case WcStatus::kLocProtErr:
      explained |= receive.changed || receive.good < receive.room;
      break;
    case WcStatus::kLocAccessErr:
      explained = next != nullptr && next->remote != Sure::kYes &&
                  (next->step->opcode == WrOpcode::kSendWithInv || next->step->opcode == WrOpcode::kRdmaWriteWithImm);
      break;
    default:
      explained = flushed;
      break;
  }
  if (!explained) return fail("receive %u ended with '%s', and nothing explains it", id, status);
  settle_partial(receive);
  q.receives_failed = true;
  fail_queue(qp, false, flushed);
}

/// UC and UD: a message was longer than a receive of a shared queue. That completes with an error, and the queue pair
/// goes on.
void Model::receive_too_short(uint32_t id, unsigned qp) {
  const Receive& receive = receives_[id];
  const bool datagram = queue(qp).spec.type == QpType::kUd;
  for (unsigned from = 0; from < queues_.size(); from++) {
    if (datagram ? queues_[from].spec.type != QpType::kUd : from != (qp ^ 1u)) continue;
    for (const uint32_t number : queues_[from].messages) {
      const Send& message = sends_[number];
      if (datagram && message.step->to != qp) continue;
      if (message.length + (datagram ? kGrhBytes : 0) <= receive.room) continue;
      return datagram ? settle_untouched(receive, 0) : settle_partial(receive);
    }
  }
  fail("receive %u was too short for none of the messages that were sent to it", id);
}

/// The `used` bytes of the message were compared; the others must be untouched. All belong to the program now.
void Model::settle_untouched(const Receive& receive, uint32_t used) {
  const unsigned endpoint = queue(receive.qp).spec.endpoint;
  for (const Element& element : receive.step->sges) {
    const uint32_t here = std::min(used, element.length);
    used -= here;
    if (here == 0 || element.region != Region::kLanding || element.offset + here > kLandingBytes) continue;
    memory_.freeze(endpoint, element.offset, here);
  }
}

/// The receive has no message, or an unknown part of one.
void Model::settle_partial(const Receive& receive) {
  const unsigned endpoint = queue(receive.qp).spec.endpoint;
  uint32_t at = 0;
  for (const Element& element : receive.step->sges) {
    const uint32_t begin = at;
    at += element.length;
    if (element.region != Region::kLanding || element.wrong_key || element.offset > kLandingBytes) continue;
    const uint32_t inside = std::min(element.length, kLandingBytes - element.offset);
    const uint8_t* bytes = memory_.landing(endpoint) + element.offset;
    if (Memory::untouched(bytes, inside)) continue;
    for (uint32_t i = 0; i < inside; i++) {
      if (bytes[i] == Memory::kCanary || may_have_received(receive, begin + i, bytes[i])) continue;
      return fail("step %td: byte %u of a receive without a message is 0x%02x", &receive - receives_.data(), begin + i,
                  bytes[i]);
    }
    memory_.freeze(endpoint, element.offset, inside);
  }
}

/// Whether a sender of this receive has a message with such a byte there.
bool Model::may_have_received(const Receive& receive, uint32_t at, uint8_t value) const {
  const Queue& to = queue(receive.qp);
  if (to.spec.type == QpType::kUd) return true;
  const bool datagrams = std::any_of(queues_.begin(), queues_.end(), [&to](const Queue& q) {
    return to.spec.srq && q.spec.srq && q.spec.type == QpType::kUd && q.spec.endpoint == to.spec.endpoint;
  });
  if (datagrams) return true;
  for (unsigned from = 0; from < queues_.size(); from++) {
    const Queue& into = peer(from);
    const bool mine = to.spec.srq ? into.spec.srq && into.spec.endpoint == to.spec.endpoint : (from ^ 1u) == receive.qp;
    if (!mine) continue;
    for (const Send& send : sends_) {
      if (send.step == nullptr || send.qp != from || send.message == kNone) continue;
      if (send.step->opcode != WrOpcode::kRdmaWriteWithImm && at < send.payload.size() && send.payload[at] == value)
        return true;
    }
  }
  return false;
}

void Model::check_rest() {
  for (unsigned qp = 0; qp < queues_.size() && !failed(); qp++) {
    const Queue& q = queues_[qp];
    if (q.destroyed) continue;
    const char* state = qp_state_name(machine_.state(qp));
    if (q.failed == Sure::kNo && machine_.state(qp) != q.state) {
      return fail("queue pair %u is in %s instead of %s", qp, state, qp_state_name(q.state));
    }
    const bool dead = q.failed == Sure::kYes && q.state != QpState::kReset;
    if (dead && machine_.state(qp) != QpState::kErr) return fail("queue pair %u is in %s after an error", qp, state);
    if (q.state == QpState::kSqd || lossy(q, true)) continue;
    check_progress(qp);
    if (failed()) return;
    check_owed(qp);
  }
}

/// Posted signalled requests must have completed by now.
void Model::check_progress(unsigned qp) {
  const Queue& q = queues_[qp];
  const Queue& p = peer(qp);
  const bool ended = q.failed == Sure::kYes;  // unsignalled ones that did not succeed are flushed
  bool excused = false;
  for (const uint32_t id : q.sends) {
    const Send& send = sends_[id];
    // One that waits for a receive for ever.
    if (send.message != kNone && q.spec.rnr_retries == 7 && q.spec.type == QpType::kRc) {
      excused |= p.spec.srq || send.message >= p.receives_in_order.size();
    }
    const bool silent = !send.signalled && may_succeed(send);
    if (q.sends_failed || (!silent && (ended || !excused))) {
      return fail("queue pair %u is at rest, and step %u has not completed", qp, id);
    }
  }
  if (q.receives_failed && !q.receives.empty() && !lossy(q, false)) {
    fail("queue pair %u is in error, and receive %u was not flushed", qp, q.receives.front());
  }
}

/// Messages acknowledged to their sender must have completed.
void Model::check_owed(unsigned qp) {
  const Queue& q = queues_[qp];
  const Queue& p = peer(qp);
  if (q.spec.type != QpType::kRc) return check_arrivals(qp);
  if (q.was_reset || p.was_reset || lossy(p, false)) return;
  for (const uint32_t id : q.messages) {
    if (sends_[id].acknowledged && !sends_[id].delivered) {
      return fail("step %u succeeded, and its message was not received", id);
    }
  }
}

/// The same for unreliable ones that nothing prevented, by number: several may look alike.
void Model::check_arrivals(unsigned qp) {
  const Queue& to = queues_[qp];
  if (to.failed != Sure::kNo || to.was_reset || to.state != QpState::kRts || lossy(to, false)) return;
  uint32_t owed = 0;
  for (const Send& send : sends_) {
    if (!send.owed || !send.sent) continue;
    const unsigned target = queue(send.qp).spec.type == QpType::kUd ? send.step->to : send.qp ^ 1u;
    owed += target == qp ? 1 : 0;
  }
  if (to.arrived < owed) fail("queue pair %u: %u messages of %u arrived on a clean cable", qp, to.arrived, owed);
}

bool Model::works(unsigned qp) const {
  const Queue& q = queues_[qp];
  return !q.destroyed && q.failed != Sure::kYes && q.state == QpState::kRts && machine_.state(qp) == QpState::kRts;
}

bool Model::at_its_end(unsigned qp) const {
  const Queue& q = queues_[qp];
  return works(qp) && !q.vague && q.sends.empty() && q.receives.empty();
}

void Model::check_flushed() {
  for (unsigned qp = 0; qp < queues_.size() && !failed(); qp++) {
    const Queue& q = queues_[qp];
    if (q.destroyed || q.state == QpState::kReset) continue;
    for (const uint32_t id : q.sends) {
      const Send& send = sends_[id];
      if (lossy(q, true) || (!q.sends_failed && !send.signalled && may_succeed(send))) continue;
      return fail("queue pair %u is in ERR, and step %u was never completed", qp, id);
    }
    if (!q.receives.empty() && !lossy(q, false)) {
      return fail("queue pair %u is in ERR, and receive %u was never completed", qp, q.receives.front());
    }
  }
}

}  // namespace uroce::model
