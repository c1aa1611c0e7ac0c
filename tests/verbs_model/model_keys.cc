// Keys and windows that change under requests that are under way, and all that follows when something may go wrong.
#include <algorithm>

#include "verbs_model/model.h"

namespace uroce::model {

namespace {

constexpr uint32_t kMostRetries = 7;

}  // namespace

Model::Model(const Program& program, const Rules& rules, Memory& memory, const Machine& machine, uint32_t extra)
    : program_(program),
      rules_(rules),
      memory_(memory),
      machine_(machine),
      sends_(program.steps.size() + extra),
      receives_(program.steps.size() + extra),
      queues_(program.qps.size()),
      sides_(program.endpoints.size()) {
  for (Side& side : sides_) std::fill_n(side.valid, kRegions, true);
  note_faults();
  for (unsigned i = 0; i < queues_.size(); i++) {
    queues_[i].spec = program.qps[i];
    if (queues_[i].spec.type == QpType::kRc && !outlives_faults(queues_[i].spec)) worry(i);
  }
}

/// Each fault that strikes once costs one retry at most. So does a leap of a clock, and a forged packet that makes the
/// receiver ask for a packet that was not lost. Random faults do not strike eight times in a row.
void Model::note_faults() {
  bool by_chance = false;
  for (const Fault& fault : program_.faults) {
    if (fault.harmless()) continue;
    network_cuts_ |= fault.unlimited();
    network_reorders_ |= fault.reorders();
    by_chance |= fault.random();
    if (!fault.random()) faults_++;
  }
  if (by_chance) faults_ += kMostRetries;
  for (const Step& step : program_.steps) {
    if (step.what == Do::kLeap || step.what == Do::kSpoof) faults_++;
    if (step.what >= Do::kTxRoom && step.what <= Do::kCut) network_cuts_ = true;
  }
  for (const Endpoint& endpoint : program_.endpoints) network_cuts_ |= endpoint.rx_frames != 0;
}

void Model::fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  verdict_.vfail(format, arguments);
  va_end(arguments);
}

void Model::worry(unsigned qp) {
  queues_[qp].failed = std::max(queues_[qp].failed, Sure::kMaybe);
  if (queues_[qp].spec.type == QpType::kUd) return;
  queues_[qp ^ 1].failed = std::max(queues_[qp ^ 1].failed, Sure::kMaybe);
  for (const unsigned each : {qp, qp ^ 1}) {
    for (const uint32_t id : queues_[each].sends) {
      if (sends_[id].reached == Sure::kYes) sends_[id].reached = Sure::kMaybe;
    }
  }
}

Model::Cq& Model::cq_of(const Queue& queue, bool send) {
  return sides_[queue.spec.endpoint].cqs[send ? queue.spec.send_cq : queue.spec.recv_cq];
}

bool Model::lossy(const Queue& queue, bool send) const {
  return (send && queue.vague) ||
         sides_[queue.spec.endpoint].cqs[send ? queue.spec.send_cq : queue.spec.recv_cq].overrun;
}

/// One more completion may be in the queue of sends.
void Model::count_send(const Queue& queue) {
  cq_of(queue, true).possible++;
  note_room(queue, queue.spec.send_cq);
}

/// A receive of a shared queue may complete in the completion queue of any queue pair that shares it.
void Model::count_receive(const Queue& queue, int change) {
  bool counted[2] = {};
  for (const Queue& other : queues_) {
    const bool shares = queue.spec.srq && other.spec.srq && other.spec.endpoint == queue.spec.endpoint;
    if (&other == &queue || shares) counted[other.spec.recv_cq] = true;
  }
  for (unsigned number = 0; number < 2; number++) {
    if (!counted[number]) continue;
    uint32_t& possible = side(queue).cqs[number].possible;
    possible += static_cast<uint32_t>(change);
    if (change > 0) note_room(queue, number);
  }
}

void Model::note_room(const Queue& queue, unsigned number) {
  Cq& cq = side(queue).cqs[number];
  if (cq.possible <= program_.endpoints[queue.spec.endpoint].cq_entries[number]) return;
  cq.may_overrun = true;
  for (unsigned other = 0; other < queues_.size(); other++) {
    const QueuePair& spec = queues_[other].spec;
    if (spec.endpoint == queue.spec.endpoint && (spec.send_cq == number || spec.recv_cq == number)) worry(other);
  }
}

/// Uncompleted requests with this key may find it valid or not.
void Model::widen(unsigned endpoint, Region region) {
  for (Send& send : sends_) {
    if (!send.owed) continue;
    const unsigned to = queue(send.qp).spec.type == QpType::kUd ? send.step->to : send.qp ^ 1u;
    send.owed = queue(to).spec.endpoint != endpoint;  // it may be on its way to the memory concerned
  }
  for (Send& send : sends_) {
    // An invalidation whose sender was reset may still be in flight.
    const bool under_way = send.step != nullptr && send.step->opcode == WrOpcode::kSendWithInv && !send.delivered;
    if (!send.outstanding && !under_way) continue;
    const Step& step = *send.step;
    bool local = false;
    if (queue(send.qp).spec.endpoint == endpoint) {
      for (const Element& element : step.sges) local |= element.region == region && element.length != 0;
      local |= step.opcode == WrOpcode::kBindMw && (step.region == region || step.window == region);
      local |= step.opcode == WrOpcode::kLocalInv && step.window == region;
    }
    const bool names = step.opcode == WrOpcode::kSendWithInv ? step.window == region : step.region == region;
    const bool uses = step.opcode == WrOpcode::kSendWithInv || send.length != 0;
    const bool remote = names && uses && step.opcode != WrOpcode::kBindMw && step.opcode != WrOpcode::kLocalInv &&
                        peer(send.qp).spec.endpoint == endpoint;
    if (local && send.local == Sure::kYes) send.local = Sure::kMaybe;
    if (remote && send.remote == Sure::kYes) {
      send.remote = Sure::kMaybe;
      send.remote_statuses |= bit(WcStatus::kRemAccessErr) | bit(WcStatus::kRemOpErr);
    }
    if (local || remote) worry(send.qp);
  }
  for (Receive& receive : receives_) {
    if (!receive.outstanding || queue(receive.qp).spec.endpoint != endpoint) continue;
    for (const Element& element : receive.step->sges) {
      if (element.region != region || element.length == 0 || receive.changed) continue;
      receive.changed = true;
      for (unsigned qp = 0; qp < queues_.size(); qp++) {
        if (qp == receive.qp || (queues_[qp].spec.srq && queues_[qp].spec.endpoint == endpoint)) worry(qp);
      }
    }
  }
}

Sure Model::may_deregister(unsigned endpoint, Region region) const {
  Sure answer = Sure::kYes;
  for (const Window& window : sides_[endpoint].windows) {
    if (window.parent != region && window.bound != Sure::kMaybe) continue;
    if (window.bound == Sure::kYes) return Sure::kNo;
    if (window.bound == Sure::kMaybe) answer = Sure::kMaybe;
  }
  return answer;
}

void Model::on_key_change(unsigned endpoint, Region region, bool valid) {
  moment_++;
  sides_[endpoint].valid[static_cast<unsigned>(region)] = valid;
  widen(endpoint, region);
  if (valid) return;
  for (Deed& deed : deeds_) {
    if (deed.endpoint == endpoint && deed.ended == kOpen && sends_[deed.id].step->region == region) {
      deed.ended = moment_;
    }
  }
}

void Model::begin_window_change(unsigned endpoint, Region region) {
  Window& window = sides_[endpoint].windows[static_cast<unsigned>(region) - kRegions];
  if (window.pending++ == 0) {
    window.before = window.bound;
    window.tangled = false;
  } else {
    window.tangled = true;
  }
  window.bound = Sure::kMaybe;
  widen(endpoint, region);
}

/// `done`: whether it was executed; kMaybe: not known (flushed).
void Model::end_window_change(const Send& send, Sure done) {
  const Step& step = *send.step;
  const bool remote = step.opcode == WrOpcode::kSendWithInv;
  const Queue& where = remote ? peer(send.qp) : queue(send.qp);
  Window& window = side(where).windows[static_cast<unsigned>(step.window) - kRegions];
  if (window.pending != 0) window.pending--;
  if (done == Sure::kMaybe || window.pending != 0 || window.tangled) {
    window.tangled = window.pending != 0;
    window.before = Sure::kMaybe;
    // The bytes that it grants are unknown: it stays uncertain until the next change succeeds.
    return;
  }
  if (done == Sure::kNo) {
    window.bound = window.before;
    return;
  }
  window.bound = step.opcode == WrOpcode::kBindMw && step.length != 0 ? Sure::kYes : Sure::kNo;
  if (step.opcode != WrOpcode::kBindMw) return;
  window.offset = step.offset;
  window.length = step.length;
  window.access = step.access;
  window.parent = step.region;
  window.qp = send.qp;
}

}  // namespace uroce::model
