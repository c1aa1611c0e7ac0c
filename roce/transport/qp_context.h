// What a QP's requester and responder share: its numbers and path, its completion queues, and the services of the
// engine.
#pragma once

#include <cstdint>

#include "base/direct_copy.h"
#include "packet/opcode.h"
#include "packet/route_header.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/loss_recovery.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/outcome.h"
#include "transport/qp_core.h"
#include "transport/qp_events.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"
#include "transport/reorder_buffer.h"
#include "transport/send_rate.h"
#include "transport/tag_matching.h"
#include "transport/transport_env.h"
#include "transport/xrc_queues.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"

namespace uroce {

struct QpContext : QpCore {
  QpContext(Qp& owner, const QpInit& init, uint32_t number, TransportEnv& environment)
      : QpCore(init.type, number),
        env(environment),
        reliable(is_reliable(init.type)),
        own_receives(init.srq == nullptr && init.type != QpType::kXrcSend && init.type != QpType::kXrcRecv),
        service(service_of(init.type)),
        xrcd(init.xrcd),
        pd(init.pd),
        send_cq(init.send_cq),
        recv_cq(init.srq != nullptr && init.srq->tags() != nullptr ? &init.srq->tags()->cq() : init.recv_cq),
        srq(init.srq),
        events(environment.observer, owner, reliable),
        rate(environment.congestion, !is_datagram(init.type)),
        peer(init.type == QpType::kRc ? init.loss_recovery.value_or(environment.loss_recovery)
                                      : LossRecovery::kGoBackN) {}

  TransportEnv& env;
  const bool reliable;      // RC and XRC
  const bool own_receives;  // it has a receive queue of its own
  const Service service;
  const XrcdId xrcd;
  // These three are for life, except an XRC target's: it has those of the message that it receives (enter_xrc_queue).
  // A shared receive queue that matches tags has a completion queue of its own.
  PdId pd;
  CompletionQueue* const send_cq;
  CompletionQueue* recv_cq;
  SharedReceiveQueue* srq;
  QpEvents events;
  SendRate rate;

  QpAttributes attributes;
  uint32_t mtu = 1024;
  RouteHeader header;
  RouteHeader data_header;  // for packets with payload: the same, but with ECT if the QP reacts to congestion marks
  PeerRecognition peer;
  Signature peer_signature;  // the one on packets of the peer, if it signs them

  void on_bind_error(const MwBind& bind) {
    const MemoryRegion* window = env.memory.window(bind.mw_rkey);
    if (window != nullptr) env.observer.on_bind_error(window->user, bind, window->key);
  }

  Counters& counters() { return env.counters; }

  /// The shared receive queue of that number if it is one that an XRC target may use, or nullptr.
  SharedReceiveQueue* xrc_queue(uint32_t number) const {
    SharedReceiveQueue* const queue = env.xrc_queues != nullptr ? env.xrc_queues->find(number) : nullptr;
    return queue != nullptr && queue->xrc().domain == xrcd ? queue : nullptr;
  }
  /// From now on the messages of an XRC target are for this queue: it gives protection domain, receives and the queue
  /// for completions. nullptr: for none.
  void enter_xrc_queue(SharedReceiveQueue* queue) {
    srq = queue;
    recv_cq = queue != nullptr ? queue->xrc().cq : nullptr;
    pd = queue != nullptr ? queue->pd() : 0;
  }

  /// Counts and reports the completion, and puts it into the completion queue. `queue` is where the work request was
  /// posted. kFailed when there was no room for the completion.
  Outcome complete_send(WorkQueueSlots& queue, Completion& completion, Instant now) {
    return complete(*send_cq, queue, completion, false, now);
  }
  Outcome complete_receive(WorkQueueSlots& queue, Completion& completion, bool solicited, Instant now) {
    return complete(*recv_cq, queue, completion, solicited, now);
  }

 private:
  Outcome complete(CompletionQueue& cq, WorkQueueSlots& queue, Completion& completion, bool solicited, Instant now);
};

}  // namespace uroce
