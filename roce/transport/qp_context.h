// What a QP's requester and responder share: its numbers and path, its completion queues, and the services of the
// engine.
#pragma once

#include <cstdint>

#include "congestion/config.h"
#include "packet/path_header.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/loss_recovery.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/outcome.h"
#include "transport/qp_events.h"
#include "transport/qp_init.h"
#include "transport/reorder_buffer.h"
#include "transport/send_rate.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"

namespace uroce {

/// The engine's side of a QP. One for all QPs of an engine.
struct TransportEnv {
  MemoryTable& memory;
  Counters& counters;
  Observer& observer;
  uint32_t window_packets = 128;
  uint32_t ack_every = 32;
  Duration ack_delay = microseconds(20);
  bool grant_credits = true;  // tell the peer in ACKs how many receives are posted
  CongestionConfig congestion = {};
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  ReorderPool* reorder_pool = nullptr;  // needed unless loss_recovery is kGoBackN
};

struct QpContext {
  QpContext(Qp& owner, const QpInit& init, uint32_t number, TransportEnv& environment)
      : env(environment),
        type(init.type),
        qpn(number),
        pd(init.pd),
        send_cq(*init.send_cq),
        recv_cq(*init.recv_cq),
        srq(init.srq),
        events(environment.observer, owner),
        rate(environment.congestion, init.type != QpType::kUd),
        peer(init.type == QpType::kRc ? init.loss_recovery.value_or(environment.loss_recovery)
                                      : LossRecovery::kGoBackN) {}

  TransportEnv& env;
  const QpType type;
  const uint32_t qpn;
  const PdId pd;
  CompletionQueue& send_cq;
  CompletionQueue& recv_cq;
  SharedReceiveQueue* const srq;
  QpEvents events;
  SendRate rate;

  QpState state = QpState::kReset;
  QpAttributes attributes;
  uint32_t mtu = 1024;
  PathSpec path;
  PathHeader header;
  PathHeader data_header;  // for packets with payload: the same, but with ECT if the QP reacts to congestion marks
  bool path_resolved = false;
  PeerRecognition peer;
  Signature peer_signature;  // the one on packets of the peer, if it signs them

  void on_bind_error(const MwBind& bind) {
    const MemoryRegion* window = env.memory.window(bind.mw_rkey);
    if (window != nullptr) env.observer.on_bind_error(window->user, bind, window->key);
  }

  Counters& counters() { return env.counters; }

  /// Counts and reports the completion, and puts it into the completion queue. `queue` is where the work request was
  /// posted. kFailed when there was no room for the completion.
  Outcome complete_send(WorkQueueSlots& queue, Completion& completion, Instant now) {
    return complete(send_cq, queue, completion, false, now);
  }
  Outcome complete_receive(WorkQueueSlots& queue, Completion& completion, bool solicited, Instant now) {
    return complete(recv_cq, queue, completion, solicited, now);
  }

 private:
  Outcome complete(CompletionQueue& cq, WorkQueueSlots& queue, Completion& completion, bool solicited, Instant now);
};

}  // namespace uroce
